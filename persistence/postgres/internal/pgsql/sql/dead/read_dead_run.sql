-- read_dead_run: the run of a dead letter, wherever it is; none if it is gone.
-- Caller: RequeueDeadLetter. Index: workflow_runs_pkey, or that of a span of
-- run_history.
{live_or_old}
select r.state, r.input, r.origin_run, r.definition from live r
union all
select h.state, h.input, h.origin_run, h.definition from old h where h.slice = 0
