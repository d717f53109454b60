-- keeping_pods: the pods, among some, that have claimed tasks of some runs.
-- Caller: ExpirePods, for runs that are passed over: their pods have to stay. It
-- does not look at the tasks, which may be what cannot be read. Index: claims_pkey.
select distinct c.pod
from {schema}.claims c
where c.pod = any(@pods::bigint[]) and c.runs && @skip::uuid[]
