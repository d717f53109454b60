-- insert_queues: makes queues known. A number that was given before is not given
-- again, also where its row was removed, but to the default queue, which is always
-- the first.
-- Caller: RegisterDefinitions, under lock_catalog.
with new as (
	insert into {schema}.queues (queue, name)
	select case when d.name = 'default' then 1
		else greatest(
			1, (select max(queue) from {schema}.queues), (select max(queue) from {schema}.frontiers)
		) + row_number() over (order by d.name = 'default', d.name) end, d.name
	from (select distinct name from unnest(@names::text[]) as z (name)) d
	where not exists (select from {schema}.queues q where q.name = d.name)
	returning queue
),
written as (
	insert into {schema}.frontiers (queue, band, block) select queue, 0, 0 from new
	on conflict (queue, band) do nothing
)
{none}
