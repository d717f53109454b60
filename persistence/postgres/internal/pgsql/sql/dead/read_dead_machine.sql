-- read_dead_machine: how far the machine of an ended run has come: up to which entry it has handled
-- them, and the number of the last.
-- Caller: RequeueDeadLetter. Index: workflow_runs_pkey and machines_pkey, or that of a span of run_history.
{live_or_old}
select coalesce((select m.taken from {schema}.machines m where m.run_id = r.id), 0), coalesce(r.signals, 0) from live r
union all
select coalesce(h.machine[1], 0), coalesce(h.signals, 0) from old h where h.slice = 0
