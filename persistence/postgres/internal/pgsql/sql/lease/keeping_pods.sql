-- keeping_pods: the pods, among some, that have claimed tasks of some runs, tenants or
-- definitions.
-- Caller: ExpirePods, for runs that are passed over: their pods have to stay. It
-- does not look at the tasks, which may be what cannot be read. Index: claims_pkey;
-- workflow_runs_pkey, probed per task.
select distinct c.pod
from {schema}.claims c
where c.pod = any(@pods::bigint[]) and (c.runs && @skip::uuid[] or cardinality(@foreign::int[]) + cardinality(@but::bigint[]) > 0 and exists (
		select from unnest(c.runs) as u (id),
			lateral (select r.definition, r.group_id from {schema}.workflow_runs r where r.id = u.id offset 0) k
		where k.definition = any(@foreign::int[]) or k.group_id = any(@but::bigint[])
	))
