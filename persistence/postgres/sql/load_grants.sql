-- load_grants: what a claim still holds, with all that an attempt needs but
-- its parents' outcomes.
-- Caller: claim and record, after they granted or when they are asked again.
-- Locks nothing. Index: the primary keys, probed per task.
select g.ord, t.run_id, t.step, t.epoch, t.attempt, t.lost, t.handler, t.queued_at, t.started_at, r.definition, r.tenant, r.labels,
	r.trace_context, r.created_at, r.canceling, coalesce(octet_length(r.input), -1),
	case when octet_length(r.input) <= @inline_max::int then r.input end, p.progress
from {schema}.claims c,
	unnest(c.runs, c.steps, c.epochs) with ordinality as g (run_id, step, epoch, ord),
	lateral (
		select * from {schema}.tasks k where k.run_id = g.run_id and k.step = g.step offset 0
	) t,
	lateral (select * from {schema}.workflow_runs k where k.id = g.run_id offset 0) r
	left join lateral (
		select k.progress from {schema}.task_progress k where k.run_id = r.id and k.step = g.step offset 0
	) p on true
where c.pod = @pod and c.claim = @claim and t.state = 3 and t.epoch = g.epoch and t.pod = c.pod
order by g.ord
