-- ended_runs: those of some runs that do not go on: they have ended, or are not
-- there, as those in history.
-- Caller: pods that hear of no ends. Locks nothing. Index: workflow_runs_pkey, probed per
-- run.
select d.id
from unnest(@runs::uuid[]) as d (id)
where not exists (select from (select k.state from {schema}.workflow_runs k where k.id = d.id offset 0) k where k.state < 10)
