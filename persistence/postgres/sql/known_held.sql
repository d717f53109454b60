-- known_held: the runs, among those of some tasks, that a holder may hold something of,
-- where, and the number of the holder. Where is 0: the counters of the run's tenant; 1: the
-- row of the run; 2: the rows of these tasks, of their children, or of timers or progress of
-- these. A holder is one of holders, or any transaction that goes on and began before the
-- server had counted to before. Its number, in the row, is the last 32 bits of what the
-- server counts; it does not say whether anybody has to wait for the lock.
-- Caller: completions and claims, while somebody is known to hold something.
-- Index: the primary keys, probed per run, per task, and per tenant and queue.
with next as materialized (
	select pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::bigint as n
),
{needed},
runs as materialized (
	select k.id as run_id, k.group_id, k.xmax::text::bigint as holder
	from (select distinct run_id from wanted) d,
		lateral (select k.id, k.group_id, k.xmax from {schema}.workflow_runs k where k.id = d.run_id offset 0) k
),
counters as materialized (
	select h.group_id, max(h.holder) as holder
	from next, (
		select t.group_id, k.holder
		from (select distinct r.group_id from runs r) t, {schema}.queues q,
			lateral (
				select k.xmax::text::bigint as holder from {schema}.tenant_groups k
				where k.queue = q.queue and k.group_id = t.group_id and k.lane in (0, 1) offset 0
			) k
	) h
	where {goes_on}
	group by h.group_id
)
select r.run_id, 0, c.holder from runs r join counters c using (group_id)
union all
select h.run_id, 1, h.holder from next, runs h where {goes_on}
union all
select h.run_id, 2, max(h.holder)
from next, (
	select n.run_id, k.holder
	from needed n,
		lateral (
			select k.xmax::text::bigint as holder from {schema}.tasks k where k.run_id = n.run_id and k.step = n.step offset 0
		) k
	union all
	select n.run_id, k.holder
	from needed n,
		lateral (
			select k.xmax::text::bigint as holder from {schema}.durable_timers k where k.run_id = n.run_id and k.step = n.step offset 0
		) k
	union all
	select n.run_id, k.holder
	from needed n,
		lateral (
			select k.xmax::text::bigint as holder from {schema}.task_progress k where k.run_id = n.run_id and k.step = n.step offset 0
		) k
	union all
	select n.run_id, k.holder
	from needed n,
		lateral (
			select k.xmax::text::bigint as holder from {schema}.parked_tasks k where k.run_id = n.run_id and k.step = n.step offset 0
		) k
) h
where {goes_on}
group by h.run_id
