-- read_dead_tasks: how the tasks of an ended run stand, by step, without elements of maps.
-- Caller: RequeueDeadLetter. Index: tasks_pkey, or that of a span of run_history.
{live_or_old},
{tasks_of_run}
select t.step, t.state, t.flags, t.wake_at, t.error, t.owner from t order by t.step
