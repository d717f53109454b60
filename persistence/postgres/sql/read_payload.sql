-- read_payload: the input of a run (step -1) or the output of a task.
-- Caller: Payload. Index: workflow_runs_pkey or tasks_pkey, and that of each
-- span of run_history.
select r.input from {schema}.every_run r where @step::int = -1 and r.id = @run
union all
select t.output from {schema}.every_task t where @step::int >= 0 and t.run_id = @run and t.step = @step::int
