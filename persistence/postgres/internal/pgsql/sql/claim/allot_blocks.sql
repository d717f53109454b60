-- allot_blocks: moves the counters of tenants on and returns where they stand
-- afterwards. A counter continues after what it gave out and after what was
-- served, whichever is higher. Rows are contended and outside the run locks, so
-- they are reached by key: an upsert probes the index whatever the statistics.
-- Caller: the slow path and the intake. Locks tenant_groups by (queue, group,
-- lane). Index: tenant_groups_pkey.
with d as materialized (
	select d.queue, d.group_id, d.lane, f.block + d.places as block
	from unnest(@queues::smallint[], @groups::int[], @lanes::smallint[], @places::bigint[]) as d (queue, group_id, lane, places),
		lateral (select k.block from {schema}.frontiers k where k.queue = d.queue and k.band = 0 offset 0) f
	order by 1, 2, 3
)
insert into {schema}.tenant_groups as g (queue, group_id, lane, block)
select d.queue, d.group_id, d.lane, d.block from d
on conflict (queue, group_id, lane) do update
set block = (
	select greatest(g.block, f.block) + excluded.block - f.block
	from {schema}.frontiers f where f.queue = g.queue and f.band = 0
)
returning g.queue, g.group_id, g.lane, g.block
