-- read_step_names: the names of a run's steps, in order, also of those that it has no tasks of,
-- and of its dynamic tasks, with their numbers.
-- Caller: StepNames. Index: workflow_runs_pkey and tasks_pkey, one range behind the steps, or
-- that of a span of run_history; definition_steps_pkey, one range.
{live_or_old},
r as materialized (
	select k.id, k.definition, k.tenant, k.dynamic_count from live k
	union all
	select h.id, h.definition, h.tenant, h.dynamic_count from old h where h.slice = 0
)
select s.step, s.name
from r, lateral (
	select k.step, k.name from {schema}.definition_steps k where k.definition = r.definition
	union all
	select k.step, k.name from live, {schema}.tasks k where r.dynamic_count > 0 and k.run_id = live.id and k.name is not null
	union all
	select h.first + u.nth::int - 1, u.name from old h, unnest(h.names) with ordinality as u (name, nth) where u.name is not null
	offset 0
) s
where @tenant::text = '' or r.tenant = @tenant::text
order by s.step
