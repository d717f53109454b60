-- explain_end: how a run ended: what asked it to stop, and the steps that failed, the
-- first unhandled one first, with the last run that continued from the step.
-- Caller: Situation. Index: tasks_pkey, one range, and that of each span of task_events,
-- or those of a span of run_history; dead_letters_pkey, one row for each of these steps.
{live_or_old},
{tasks_of_run},
{events_of_run}
select r.finished_at, coalesce(r.cancel_reason, ''), coalesce(c."by", ''), f.name, f.finished_at, coalesce(f.attempt, 0), coalesce(f.lost, 0),
	coalesce(f.class, ''), coalesce(f.error, ''), l.requeued_at, l.requeued_as
from (
		select k.definition, k.failed_step, k.finished_at, k.cancel_reason from live k
		union all
		select h.definition, h.failed_step, h.finished_at, h.cancel_reason from old h where h.slice = 0
	) r
	left join lateral (select e."by" from e where e.step = -1 and e.kind = 34 order by e.n limit 1) c on true
	left join lateral (
		select coalesce(t.name, s.name) as name, t.step, t.finished_at, t.attempt, t.lost, t.class, t.error
		from t left join {schema}.definition_steps s on s.definition = r.definition and s.step = coalesce(t.declared, t.step)
		where t.state = 11 and coalesce(t.name, s.name) is not null
		order by t.step is distinct from r.failed_step, t.step
		limit @limit::int
	) f on true
	left join {schema}.dead_letters l on l.run_id = @run and l.step = f.step
order by f.step is distinct from r.failed_step, f.step
