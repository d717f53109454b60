-- read_payload: how large the output of a step of a run is, or the run's input for step "",
-- and how it begins. No row: the tenant has no such run.
-- Caller: Payload. Index: workflow_runs_pkey and tasks_pkey, or that of a span of
-- run_history, where the outputs of a slice of the run are read as one array;
-- definition_steps_pkey, one range; of a name that is none of a step's, the dynamic tasks of the run.
{live_or_old},
r as materialized (
	select k.id, k.definition, k.tenant from live k
	union all
	select h.id, h.definition, h.tenant from old h where h.slice = 0
)
select d.definition is not null, s.step is not null, t.state, t.class, t.error, octet_length(t.payload), substring(t.payload for @limit::int)
from r
	left join lateral (
		select k.definition from {schema}.workflow_definitions k where k.definition = r.definition offset 0
	) d on true
	left join lateral (
		select k.step
		from (
			select k.step from {schema}.definition_steps k where k.definition = r.definition and k.name = @step::text
			union all
			select k.step
			from live, lateral (select t.step, t.name from {schema}.tasks t where t.run_id = live.id offset 0) k
			where live.dynamic_count > 0 and k.name = @step::text
			union all
			select h.first + u.nth::int - 1 from old h, unnest(h.names) with ordinality as u (name, nth) where u.name = @step::text
		) k
		order by k.step limit 1
	) s on true
	left join lateral (
		select null::smallint as state, null::text as class, null::text as error, k.input as payload from live k where @step::text = ''
		union all
		select null, null, null, h.input from old h where @step::text = '' and h.slice = 0
		union all
		select k.state, k.class, k.error, k.output from {schema}.tasks k where k.run_id = r.id and k.step = s.step
		union all
		select h.states[s.step - h.first + 1], h.classes[s.step - h.first + 1], h.errors[s.step - h.first + 1], h.outputs[s.step - h.first + 1]
		from old h
		where s.step >= h.first and s.step < h.first + cardinality(h.states)
		offset 0
	) t on true
where @tenant::text = '' or r.tenant = @tenant::text
