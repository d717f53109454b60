-- read_dead_tasks: how the tasks of an ended run stand, by step.
-- Caller: RequeueDeadLetter. Index: tasks_pkey or run_history by id.
select t.step, t.state, t.flags, t.wake_at, t.error from {schema}.every_task t where t.run_id = @run order by t.step
