-- find_runs: which of these runs exist. Caller: TriggerRuns, TriggerInTx.
-- Index: workflow_runs_pkey, probed per id.
select k.id
from unnest(@runs::uuid[]) as d (id),
	lateral (select k.id from {schema}.workflow_runs k where k.id = d.id offset 0) k
