-- read_runs: runs as readers see them, newest first. One whose definition an operator has
-- removed has no workflow.
-- Caller: Run, ListRuns. Index: the primary keys, probed per run; those of spans of
-- run_history for the runs that are not in workflow_runs. The slices of a large
-- run are looked through only if the first has not got what is looked for.
with live as materialized (
	select r.*
	from unnest(@runs::uuid[]) as i (id), lateral (select * from {schema}.workflow_runs k where k.id = i.id offset 0) r
),
old as materialized (
	select h.*
	from {schema}.history_of(nullif(array(select i.id from unnest(@runs::uuid[]) as i (id) except select l.id from live l), '{}')) h
),
r as materialized (
	select l.id, l.definition, l.failed_step, l.tenant, l.key, l.state, l.canceling, l.cancel_reason, l.origin, l.labels, l.created_at,
		l.started_at, l.finished_at, d.name, d.hash, o.state as output_state, o.output, t.class, t.error, t.name as failed_name,
		l.parent_run, l.parent_step
	from live l
		left join lateral (select * from {schema}.workflow_definitions k where k.definition = l.definition offset 0) d on true
		left join lateral (
			select k.state, case when @outputs::bool then k.output end as output
			from {schema}.tasks k where k.run_id = l.id and k.step = d.output and k.state = 10 offset 0
		) o on true
		left join lateral (
			select k.class, k.error, k.name from {schema}.tasks k where k.run_id = l.id and k.step = l.failed_step offset 0
		) t on true
	union all
	select h.id, h.definition, h.failed_step, h.tenant, h.key, h.state, h.canceling, h.cancel_reason, h.origin, h.labels, h.created_at,
		h.started_at, h.finished_at, d.name, d.hash, o.state, o.output, t.class, t.error, t.name,
		h.parent_run, h.parent_step
	from old h
		left join lateral (select * from {schema}.workflow_definitions k where k.definition = h.definition offset 0) d on true
		left join lateral (
			select k.states[d.output - k.first + 1] as state, case when @outputs::bool then k.outputs[d.output - k.first + 1] end as output
			from (
				select h.first, h.states, h.outputs
				union all
				select k.first, k.states, k.outputs
				from old k where d.output >= h.first + cardinality(h.states) and k.id = h.id and k.slice > 0
			) k
			where k.states[d.output - k.first + 1] = 10
		) o on true
		left join lateral (
			select k.classes[h.failed_step - k.first + 1] as class, k.errors[h.failed_step - k.first + 1] as error,
				k.names[h.failed_step - k.first + 1] as name
			from (
				select h.first, h.states, h.classes, h.errors, h.names
				union all
				select k.first, k.states, k.classes, k.errors, k.names
				from old k where h.failed_step >= h.first + cardinality(h.states) and k.id = h.id and k.slice > 0
			) k
			where k.states[h.failed_step - k.first + 1] is not null
		) t on true
	where h.slice = 0
)
select r.id, r.name, r.hash, r.tenant, r.key, r.state, r.canceling, r.cancel_reason, r.origin, r.labels, r.created_at, r.started_at,
	r.finished_at, r.output_state is not distinct from 10, r.output, coalesce(f.name, r.failed_name), r.class, r.error,
	r.parent_run, coalesce(r.parent_step, 0)
from r
	left join lateral (
		select k.name from {schema}.definition_steps k where k.definition = r.definition and k.step = r.failed_step offset 0
	) f on true
where @tenant::text is null or r.tenant = @tenant::text
order by r.id desc
