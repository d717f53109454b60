-- find_runs: which of these runs exist. Caller: TriggerRuns, TriggerInTx,
-- RequeueDeadLetter. Index: workflow_runs_pkey, probed per id; those of spans of
-- run_history only for ids that are as old as something archived, which new ones
-- are not. In a serializable transaction the probe would lock the page of the index
-- against the new runs of other transactions: only history is read there unless @always.
select k.id
from unnest(@runs::uuid[]) as d (id),
	lateral (select k.id from {schema}.workflow_runs k where k.id = d.id offset 0) k
where {may_read}
union all
select h.id
from (
		select array_agg(d.id) as runs from {schema}.archived_up_to a, unnest(@runs::uuid[]) as d (id) where d.id <= a.id
	) d,
	lateral (select k.id from {schema}.history_of(d.runs) k where k.slice = 0 offset 0) h
