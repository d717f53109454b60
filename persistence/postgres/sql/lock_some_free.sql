-- lock_some_free: as lock_runs_free, but in the order given, and no more than so many (which
-- a nested loop over unnest keeps to, and nothing depends on it but who is first).
-- Caller: FireTimers and ExpirePods, after lock_runs met the lock timeout.
-- Locks workflow_runs in any order, waits for nothing.
-- Index: workflow_runs_pkey, probed per id.
select x.id
from unnest(@runs::uuid[]) as d (id),
	lateral (select k.id from {schema}.workflow_runs k where k.id = d.id offset 0 for no key update skip locked) x
limit @limit::int
