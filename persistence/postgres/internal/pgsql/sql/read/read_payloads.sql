-- read_payloads: outputs of tasks of a run, and its input as that of step -1.
-- Caller: Payloads. Index: workflow_runs_pkey and tasks_pkey, probed per step, or
-- that of a span of run_history, where the outputs of a slice of the run are read as
-- one array.
{live_or_old}
select -1, r.input from live r where -1 = any(@steps::int[])
union all
select k.step, k.output
from unnest(@steps::int[]) i (step), lateral (select * from {schema}.tasks k where k.run_id = @run and k.step = i.step offset 0) k
union all
select -1, h.input from old h where -1 = any(@steps::int[]) and h.slice = 0
union all
select h.first + u.nth::int - 1, u.output
from old h, unnest(h.states, h.outputs) with ordinality as u (state, output, nth)
where h.first + u.nth - 1 = any(@steps::int[])
