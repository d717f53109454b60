-- read_groups: the tenants' groups of runs.
-- Caller: records under a limit per tenant. Index: workflow_runs_pkey, probed
-- per id.
select distinct k.group_id
from unnest(@runs::uuid[]) as d (id),
	lateral (select k.group_id from {schema}.workflow_runs k where k.id = d.id offset 0) k
order by 1
