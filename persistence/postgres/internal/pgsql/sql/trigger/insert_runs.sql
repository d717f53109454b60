-- insert_runs: stores runs and that they were created.
-- Caller: TriggerRuns (with the tenant's group) and TriggerInTx (group 0: to be
-- expanded). Writes all of them, or fails. Index: workflow_runs_pkey.
with r as (
	insert into {schema}.workflow_runs (id, definition, group_id, remaining, events, queue, state, slow, created_at, started_at,
		tenant, key, origin, trace_context, labels, input)
	select d.id, d.definition, d.group_id, d.remaining, d.events, d.queue, d.state, d.slow, @now::timestamptz,
		case when d.state = 3 then @now::timestamptz end, d.tenant, nullif(d.key, ''), d.origin, nullif(d.trace_context, ''),
		d.labels::jsonb, d.input
	from unnest(@runs::uuid[], @definitions::int[], @groups::int[], @remaining::int[], @events::int[], @queues::smallint[],
		@states::smallint[], @slow::bool[], @tenants::text[], @keys::text[], @origins::text[], @traces::text[], @labels::text[],
		@inputs::bytea[])
		as d (id, definition, group_id, remaining, events, queue, state, slow, tenant, key, origin, trace_context, labels, input)
	returning id, origin
),
written as (
	insert into {schema}.task_events (run_id, step, n, kind, at, "by")
	select r.id, -1, 1, 32, @now::timestamptz, nullif(r.origin, '') from r
)
select ln((count(*) = cardinality(@runs::uuid[]))::int) from r
