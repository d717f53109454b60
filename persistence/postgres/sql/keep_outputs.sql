-- keep_outputs: gives a new run the outputs of an ended one, as the progress of
-- its tasks to be.
-- Caller: RequeueDeadLetter. Index: tasks_pkey or run_history by id.
with written as (
	insert into {schema}.task_progress (run_id, step, progress)
	select @new::uuid, t.step, t.output
	from {schema}.every_task t
	where t.run_id = @run and t.step = any(@steps::int[]) and t.output is not null
)
{none}
