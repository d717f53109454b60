-- run_holders: the transactions that hold runs which could not be locked, or did a
-- moment ago. A run that is not there has no row.
-- Caller: every writer of runs, after a lock was not granted in time.
-- Index: workflow_runs_pkey, probed per id.
select k.id, k.xmax::text::bigint
from unnest(@runs::uuid[]) as d (id),
	lateral (select k.id, k.xmax from {schema}.workflow_runs k where k.id = d.id offset 0) k
