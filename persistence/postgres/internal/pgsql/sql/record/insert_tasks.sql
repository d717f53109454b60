-- insert_tasks: tasks made at run time: the failure handler's.
-- Writes all of them, or fails. Caller: the slow path, under the locks of their runs.
with u as (
	insert into {schema}.tasks (run_id, step, handler, queue, state, traits, pending, parents, epoch, pod, children, queued_at, started_at)
	select d.run_id, d.step, d.handler, d.queue, d.state, d.traits, 0, 0, d.epoch, d.pod, '{}', @now::timestamptz,
		case when d.pod > 0 then @now::timestamptz end
	from unnest(@runs::uuid[], @steps::int[], @handlers::int[], @queues::smallint[], @states::smallint[], @traits::smallint[],
		@epochs::bigint[], @pods::bigint[]) as d (run_id, step, handler, queue, state, traits, epoch, pod)
	returning 1
)
select ln((count(*) = cardinality(@runs::uuid[]))::int) from u
