-- keep_outputs: gives a new run the outputs of an ended one, as the progress of
-- its tasks to be.
-- Caller: RequeueDeadLetter. Index: tasks_pkey, or that of a span of run_history.
{live_or_old},
{tasks_of_run},
written as (
	insert into {schema}.task_progress (run_id, step, progress)
	select @new::uuid, t.step, t.output
	from t
	where t.step = any(@steps::int[]) and t.output is not null
)
{none}
