-- keeping_pods: the pods, among some, that hold tasks of some runs.
-- Caller: ExpirePods, for runs that are passed over: their pods have to stay.
-- Index: claims_pkey; tasks_pkey, probed per task.
select distinct c.pod
from {schema}.claims c,
	unnest(c.runs, c.steps, c.epochs) as g (run_id, step, epoch),
	lateral (select k.state, k.pod, k.epoch from {schema}.tasks k where k.run_id = g.run_id and k.step = g.step offset 0) t
where c.pod = any(@pods::bigint[]) and g.run_id = any(@skip::uuid[]) and t.state = 3 and t.pod = c.pod and t.epoch = g.epoch
