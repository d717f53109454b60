-- insert_dead_letters: what a reader is told about tasks that failed for good.
-- Caller: everything that decides in Go, under the locks of the runs, after
-- runs and tasks were written. Index: the primary keys, probed per task.
with d as materialized (
	select d.run_id, d.step, r.definition, d.reason, r.queue, d.attempts, d.lost, r.created_at, t.started_at, r.tenant,
		w.name as workflow, coalesce(t.name, s.name) as step_name, coalesce(s.declared, t.declared) as declared, d.class, d.error, d.handled, r.trace_context, r.labels,
		exists (select from {schema}.dead_letters k where k.run_id = d.run_id and k.step = d.step offset 0) as there
	from unnest(@runs::uuid[], @steps::int[], @reasons::smallint[], @attempts::int[], @lost::int[], @classes::text[], @errors::text[], @handled::bool[])
			as d (run_id, step, reason, attempts, lost, class, error, handled),
		lateral (select * from {schema}.workflow_runs k where k.id = d.run_id offset 0) r,
		lateral (select k.name from {schema}.workflow_definitions k where k.definition = r.definition offset 0) w
		left join lateral (
			select k.started_at, k.declared, k.name, k.traits from {schema}.tasks k where k.run_id = d.run_id and k.step = d.step offset 0
		) t on true
		left join lateral ( -- what a machine has started (trait 4096) is of the step that its name says
			select k.name, null::int as declared from {schema}.definition_steps k
			where coalesce(t.traits, 0) & 4096 = 0 and k.definition = r.definition and k.step = coalesce(t.declared, d.step)
			union all
			select k.name, k.step from {schema}.definition_steps k
			where t.traits & 4096 > 0 and k.definition = r.definition and k.name = split_part(t.name, '#', 1)
			offset 0
		) s on true
	where coalesce(t.name, s.name) is not null
),
u as (
	insert into {schema}.dead_letters (run_id, step, definition, reason, queue, attempts, lost, created_at, started_at, died_at, tenant,
		workflow, step_name, class, error, trace_context, labels, declared, handled)
	select d.run_id, d.step, d.definition, d.reason, d.queue, d.attempts, d.lost, d.created_at, d.started_at, @now::timestamptz, d.tenant,
		d.workflow, d.step_name, nullif(d.class, ''), nullif(d.error, ''), d.trace_context, d.labels, d.declared, d.handled
	from d
	on conflict (run_id, step) do nothing
	returning 1
)
select ln((count(*) = (select count(*) from d where not d.there))::int) from u
