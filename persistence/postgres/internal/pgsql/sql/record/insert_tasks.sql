-- insert_tasks: dynamic tasks, the failure handlers of runs among them: what decisions made
-- while runs go on. Writes all of them, or fails.
-- marks: 1 queued now, 2 started now, 4 ended now, as those of update_tasks. Those of a failure handler,
-- which has a step of its own, are -1 in declared and owner.
-- Caller: the slow path, under the locks of their runs.
with u as (
	insert into {schema}.tasks (run_id, step, handler, queue, state, traits, flags, pending, parents, epoch, children, sleep, start_timeout,
		queued_at, finished_at, class, error, declared, owner, name, entry, wake_at, pod, started_at)
	select d.run_id, d.step, d.handler, d.queue, d.state, d.traits, d.flags, 0, 0, d.epoch, '{}', nullif(d.sleep, 0),
		nullif(d.start_timeout, 0), case when d.marks & 1 > 0 then @now::timestamptz end,
		case when d.marks & 4 > 0 then @now::timestamptz end, nullif(d.class, ''), nullif(d.error, ''), nullif(d.declared, -1),
		nullif(d.owner, -1), nullif(d.name, ''), nullif(d.entry, 0), d.wake_at, d.pod,
		case when d.marks & 2 > 0 then @now::timestamptz end
	from unnest(@runs::uuid[], @steps::int[], @handlers::int[], @queues::smallint[], @states::smallint[], @traits::smallint[],
		@flags::smallint[], @epochs::bigint[], @sleeps::bigint[], @start_timeouts::bigint[], @marks::smallint[], @classes::text[],
		@errors::text[], @declared::int[], @owners::int[], @names::text[], @entries::bigint[], @wakes::timestamptz[], @pods::bigint[])
		as d (run_id, step, handler, queue, state, traits, flags, epoch, sleep, start_timeout, marks, class, error, declared, owner, name, entry, wake_at, pod)
	returning 1
)
select ln((count(*) = cardinality(@runs::uuid[]))::int) from u
