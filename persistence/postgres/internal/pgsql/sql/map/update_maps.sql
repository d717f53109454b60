-- update_maps: how far maps have come. Writes all of them, or fails.
-- Caller: the slow path, under the locks of their runs. Index: maps_pkey, probed per map.
with d as materialized (
	select * from unnest(@runs::uuid[], @steps::int[], @items_left::int[], @next_items::int[], @open::int[], @failed::int[])
		as d (run_id, step, items_left, next_item, open, failed)
),
u as (
	update {schema}.maps m
	set items_left = d.items_left, next_item = d.next_item, open = d.open, failed = d.failed
	from (
		select d.*, x.tid
		from d, lateral (select k.ctid as tid from {schema}.maps k where k.run_id = d.run_id and k.step = d.step offset 0) x
	) d
	where m.ctid = d.tid and m.run_id is not distinct from d.run_id and m.step is not distinct from d.step
	returning m.items_left = d.items_left and m.next_item = d.next_item and m.open = d.open and m.failed = d.failed as written
)
{all_written}
