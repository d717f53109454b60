-- expand_runs: inserts the tasks of runs from their definitions. Of a plain run
-- the tasks without parents are queued at once; their queue rows are
-- insert_ready's. What failure handlers and machines execute (traits 16 and 4096) gets its tasks later. It divides by zero if that is not as many steps as the caller expects: a
-- commit may be under way behind it. Writes all of them, or fails.
-- Caller: the intake. Index: definition_steps_pkey, one range per run.
with d as materialized (
	select * from unnest(@runs::uuid[], @definitions::int[], @queues::smallint[], @plain::bool[]) as d (id, definition, queue, plain)
),
s as materialized (
	select d.id, d.queue as usual, s.*
	from d,
		lateral (
			select k.*, d.plain and k.pending = 0 as queued
			from {schema}.definition_steps k where k.definition = d.definition and k.traits & 4112 = 0 offset 0
		) s
),
t as (
	insert into {schema}.tasks (run_id, step, handler, epoch, pending, parents, queue, state, traits, children, sleep, start_timeout,
		queued_at)
	select s.id, s.step, s.handler, case when s.queued then 1 else 0 end, s.pending, s.pending, coalesce(s.queue, s.usual),
		case when s.queued then 2 else 1 end, s.traits, s.children, nullif(s.sleep, 0), nullif(s.start_timeout, 0),
		case when s.queued then @now::timestamptz end
	from s
	returning run_id, step, epoch
),
e as (
	insert into {schema}.task_events (run_id, step, n, kind, at)
	select d.id, -1, 2, 33, @now::timestamptz from d where d.plain
	union all
	select t.run_id, t.step, 1, 1, @now::timestamptz from t where t.epoch = 1
)
select 1 / ((select count(*) from s) = @tasks::bigint)::int
where (select ln(((select count(*) from t) = (select count(*) from s))::int)) is not null
