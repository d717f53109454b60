-- read_payload: the input of a run (step -1) or the output of a task.
-- Caller: Payload. Index: workflow_runs_pkey or tasks_pkey, or that of a span of
-- run_history.
{live_or_old}
select r.input from live r where @step::int = -1
union all
select k.output from {schema}.tasks k where @step::int >= 0 and k.run_id = @run and k.step = @step::int
union all
select h.input from old h where @step::int = -1 and h.slice = 0
union all
select u.output
from old h, unnest(h.states, h.outputs) with ordinality as u (state, output, nth)
where @step::int >= h.first and h.first + u.nth - 1 = @step::int
