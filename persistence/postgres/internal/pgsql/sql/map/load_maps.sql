-- load_maps: how far maps have come, with the numbers of the items that get elements next.
-- Caller: the slow path, under the locks of their runs. Locks nothing. Index: maps_pkey, probed
-- per map; map_items_pkey, one range per map, no longer than elements may be open.
select m.run_id, m.step, m.at_once, m.allowed, m.items, m.items_left, m.next_item, m.open, m.failed,
	array(
		select i.item from {schema}.map_items i
		where i.run_id = m.run_id and i.step = m.step and i.item >= m.next_item
		order by i.item limit m.at_once
	)
from unnest(@runs::uuid[], @steps::int[]) as d (run_id, step),
	lateral (select * from {schema}.maps k where k.run_id = d.run_id and k.step = d.step offset 0) m
