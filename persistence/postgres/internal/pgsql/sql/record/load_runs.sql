-- load_runs: the runs that lock_runs has locked, with the clock.
-- Caller: every writer of runs on the slow path. Locks nothing.
-- Index: workflow_runs_pkey, probed per id.
select r.id, r.definition, r.group_id, r.queue, r.state, r.remaining, r.events, r.slow, r.canceling, r.failing, r.unhandled,
	r.cut, r.handler_made, r.failed_step, r.tenant, coalesce(r.dynamic_count, 0), coalesce(r.signals, 0),
	r.parent_run, coalesce(r.parent_step, 0), coalesce(r.depth, 0), coalesce(r.abandoned, false)
from (select distinct id from unnest(@runs::uuid[]) as z (id) order by id) d,
	lateral (select * from {schema}.workflow_runs k where k.id = d.id offset 0) r
