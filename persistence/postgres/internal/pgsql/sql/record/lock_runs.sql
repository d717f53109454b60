-- lock_runs: serialises everything that happens to a run. A statement of its
-- own, so that the next one sees what the previous holder wrote.
-- Caller: every writer of runs. Locks workflow_runs by id, waits.
-- Index: workflow_runs_pkey, probed per id.
select count(*)
from (select distinct id from unnest(@runs::uuid[]) as z (id) order by id) d,
	lateral (select 1 from {schema}.workflow_runs k where k.id = d.id offset 0 for no key update) x
