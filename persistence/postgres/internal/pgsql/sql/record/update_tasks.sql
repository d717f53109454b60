-- update_tasks: what decisions made of tasks. Writes all of them, or fails.
-- marks: 1 queued now, 2 started now, 4 ended now, 8 output given.
-- Caller: the slow path, which holds the locks of their runs and of the rows.
-- Index: tasks_pkey, probed per task.
with d as materialized (
	select * from unnest(@runs::uuid[], @steps::int[], @states::smallint[], @flags::smallint[], @pending::int[], @epochs::bigint[],
		@attempts::int[], @lost::int[], @pods::bigint[], @wakes::timestamptz[], @classes::text[], @errors::text[],
		@marks::smallint[], @outputs::bytea[], @entries::bigint[])
		as d (run_id, step, state, flags, pending, epoch, attempt, lost, pod, wake_at, class, error, marks, output, entry)
),
u as (
	update {schema}.tasks t
	set state = d.state, flags = d.flags, pending = d.pending, epoch = d.epoch, attempt = d.attempt, lost = d.lost, pod = d.pod,
		wake_at = d.wake_at, class = nullif(d.class, ''), error = nullif(d.error, ''), entry = nullif(d.entry, 0),
		queued_at = case when d.marks & 1 > 0 then @now::timestamptz else t.queued_at end,
		started_at = case when d.marks & 2 > 0 then @now::timestamptz else t.started_at end,
		finished_at = case when d.marks & 4 > 0 then @now::timestamptz else t.finished_at end,
		output = case when d.marks & 8 > 0 then d.output else t.output end
	from (
		select d.*, x.tid
		from d, lateral (select k.ctid as tid from {schema}.tasks k where k.run_id = d.run_id and k.step = d.step offset 0) x
	) d
	where t.ctid = d.tid and t.run_id is not distinct from d.run_id and t.step is not distinct from d.step
	returning t.state = d.state and t.epoch = d.epoch and t.pending = d.pending and t.flags = d.flags as written
)
{all_written}
