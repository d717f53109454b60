-- delete_orphans: the timers of runs that are not there.
-- Caller: FireTimers, behind the fence. Locks durable_timers. Index:
-- durable_timers_pkey and workflow_runs_pkey, probed per run.
with d as materialized (
	select * from unnest(@runs::uuid[]) as d (run_id)
)
delete from {schema}.durable_timers t
using (
	select x.tid, d.run_id
	from d,
		lateral (select k.ctid as tid from {schema}.durable_timers k where k.run_id = d.run_id offset 0) x
	where not exists (select from {schema}.workflow_runs r where r.id = d.run_id offset 0)
) d
where t.ctid = d.tid and t.run_id is not distinct from d.run_id
