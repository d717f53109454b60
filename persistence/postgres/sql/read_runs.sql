-- read_runs: runs as readers see them, newest first. One whose definition somebody has
-- removed has no workflow.
-- Caller: Run, ListRuns. Index: the primary keys, probed per run.
select r.id, d.name, d.hash, r.tenant, r.key, r.state, r.canceling, r.cancel_reason, r.origin, r.labels, r.created_at, r.started_at,
	r.finished_at, o.state is not distinct from 10,
	case when @outputs::bool then o.output end, f.name, t.class, t.error
from unnest(@runs::uuid[]) as i (id),
	lateral (select * from {schema}.every_run k where k.id = i.id offset 0) r
	left join lateral (select * from {schema}.workflow_definitions k where k.definition = r.definition offset 0) d on true
	left join lateral (
		select k.state, k.output from {schema}.every_task k where k.run_id = r.id and k.step = d.output and k.state = 10 offset 0
	) o on true
	left join lateral (
		select k.class, k.error from {schema}.every_task k where k.run_id = r.id and k.step = r.failed_step offset 0
	) t on true
	left join lateral (
		select k.name from {schema}.definition_steps k where k.definition = r.definition and k.step = r.failed_step offset 0
	) f on true
where @tenant::text is null or r.tenant = @tenant::text
order by r.id desc
