-- read_step_names: the names of a run's steps, in order, also of those that it has no tasks of.
-- Caller: StepNames. Index: workflow_runs_pkey, or that of a span of run_history;
-- definition_steps_pkey, one range.
{live_or_old}
select s.name
from (
	select k.definition, k.tenant from live k
	union all
	select h.definition, h.tenant from old h where h.slice = 0
) r, lateral (
	select k.step, k.name from {schema}.definition_steps k where k.definition = r.definition offset 0
) s
where @tenant::text = '' or r.tenant = @tenant::text
order by s.step
