-- known_held: the runs of some tasks in whose tenants' counters (0), whose own rows (1), or
-- in the rows of these tasks, of their children or of timers or progress of these (2) some
-- transactions stand, or any that goes on and was there before the server had counted to
-- before. A number in a row is the last 32 bits of what the server counts; whether what it
-- stands for is a lock that anybody has to wait for, it does not say.
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
