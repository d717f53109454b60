-- insert_queues: makes queues known. Caller: RegisterDefinitions, under
-- lock_catalog.
with new as (
	insert into {schema}.queues (queue, name)
	select (select coalesce(max(queue), 0) from {schema}.queues) + row_number() over (order by d.name), d.name
	from (select distinct name from unnest(@names::text[]) as z (name)) d
	where not exists (select from {schema}.queues q where q.name = d.name)
	returning queue
)
insert into {schema}.frontiers (queue, band, block) select queue, 0, 0 from new
