-- allot_blocks: moves the counters of tenants on and returns where they stand
-- afterwards. A counter continues after what it gave out and after what was
-- served, whichever is higher. Rows are contended and outside the run locks, so
-- they are reached by key: an upsert probes the index whatever the statistics.
-- Caller: the slow path and the intake. Locks tenant_groups by (queue, group).
-- Index: tenant_groups_pkey.
with d as materialized (
	select d.queue, d.group_id, d.continuing, d.fresh, f.block
	from unnest(@queues::smallint[], @groups::int[], @continuing::bigint[], @fresh::bigint[])
		as d (queue, group_id, continuing, fresh),
		lateral (select k.block from {schema}.frontiers k where k.queue = d.queue and k.band = 0 offset 0) f
	order by d.queue, d.group_id
)
insert into {schema}.tenant_groups as g (queue, group_id, continuing, fresh)
select d.queue, d.group_id, case when d.continuing > 0 then d.block + d.continuing else 0 end,
	case when d.fresh > 0 then d.block + d.fresh else 0 end
from d
on conflict (queue, group_id) do update
set continuing = case when excluded.continuing = 0 then g.continuing else (
		select greatest(g.continuing, f.block) + excluded.continuing - f.block
		from {schema}.frontiers f where f.queue = g.queue and f.band = 0
	) end,
	fresh = case when excluded.fresh = 0 then g.fresh else (
		select greatest(g.fresh, f.block) + excluded.fresh - f.block
		from {schema}.frontiers f where f.queue = g.queue and f.band = 0
	) end
returning g.queue, g.group_id, g.continuing, g.fresh
