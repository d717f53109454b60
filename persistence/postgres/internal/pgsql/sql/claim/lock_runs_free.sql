-- lock_runs_free: as lock_runs, but passes over what is locked.
-- Returns what it locked.
-- Caller: every writer of runs, after lock_runs met the lock timeout.
-- Locks workflow_runs by id, waits for nothing.
-- Index: workflow_runs_pkey, probed per id.
select x.id
from (select distinct id from unnest(@runs::uuid[]) as z (id) order by id) d,
	lateral (select k.id from {schema}.workflow_runs k where k.id = d.id offset 0 for no key update skip locked) x
