-- find_runs: which of these runs exist. Caller: TriggerRuns, TriggerInTx.
-- Index: workflow_runs_pkey, probed per id; those of the spans of run_history
-- only for ids that are as old as something archived, which new ones are not.
select k.id
from unnest(@runs::uuid[]) as d (id),
	lateral (select k.id from {schema}.workflow_runs k where k.id = d.id offset 0) k
union all
select h.id
from {schema}.archived_up_to a, unnest(@runs::uuid[]) as d (id),
	lateral (select h.id from {schema}.run_history h where d.id <= a.id and h.id = d.id and h.slice = 0 offset 0) h
