-- insert_maps: maps that begin their elements. Writes all of them, or fails.
-- Caller: the slow path, under the locks of their runs.
with u as (
	insert into {schema}.maps (run_id, step, at_once, allowed, items, items_left, next_item, open, failed)
	select * from unnest(@runs::uuid[], @steps::int[], @at_once::int[], @allowed::int[], @items::int[], @items_left::int[],
		@next_items::int[], @open::int[], @failed::int[])
	returning 1
)
select ln((count(*) = cardinality(@runs::uuid[]))::int) from u
