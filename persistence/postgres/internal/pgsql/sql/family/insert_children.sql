-- insert_children: stores the runs that steps begin, that they were created, and that the steps
-- have begun them, and asks the pods to expand them. They have the tenant, the labels and the
-- queue of the runs of the steps. Writes all of them, or fails.
-- Caller: the slow path, under the locks of the runs of the steps, once it has written the tasks.
-- Index: workflow_runs_pkey, tasks_pkey, probed per step.
with d as materialized (
	select *
	from unnest(@ids::uuid[], @runs::uuid[], @steps::int[], @definitions::int[], @remaining::int[], @key_runs::uuid[], @abandoned::bool[],
		@traces::text[], @inputs::bytea[], @edges::bytea[])
		with ordinality as d (id, run_id, step, definition, remaining, key_run, abandoned, trace_context, input, edges, ord)
),
r as (
	insert into {schema}.workflow_runs (id, definition, group_id, remaining, events, queue, state, slow, created_at, tenant, origin,
		origin_run, trace_context, labels, input, parent_run, parent_step, depth, abandoned)
	select d.id, d.definition, 0, d.remaining, 1, p.queue, 1, true, @now::timestamptz, p.tenant, @origin::text,
		d.key_run, nullif(d.trace_context, ''), p.labels, d.input, d.run_id, d.step, coalesce(p.depth, 0) + 1, d.abandoned
	from d, lateral (select * from {schema}.workflow_runs k where k.id = d.run_id offset 0) p
	returning id
),
noted as (
	insert into {schema}.task_events (run_id, step, n, kind, at, "by") select r.id, -1, 1, 32, @now::timestamptz, @origin::text from r
),
asked as (
	insert into {schema}.intake (run_id, edges) select d.id, d.edges from d order by d.ord
	returning 1
),
begun as (
	update {schema}.tasks t
	set child = d.id
	from (
		select d.*, x.tid
		from d, lateral (select k.ctid as tid from {schema}.tasks k where k.run_id = d.run_id and k.step = d.step offset 0) x
	) d
	where t.ctid = d.tid and t.run_id is not distinct from d.run_id and t.step is not distinct from d.step
	returning t.child = d.id as written
)
select ln((
	(select count(*) from r) = (select count(*) from d) and (select count(*) from asked) = (select count(*) from d)
	and (select count(*) from begun where written) = (select count(*) from d)
)::int)
