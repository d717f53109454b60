-- read_payload: the input of a run (step -1) or the output of a task.
-- Caller: Payload. Index: workflow_runs_pkey or tasks_pkey.
select r.input from {schema}.workflow_runs r where @step::int = -1 and r.id = @run
union all
select t.output from {schema}.tasks t where @step::int >= 0 and t.run_id = @run and t.step = @step::int
