-- held_tasks: the tasks that pods hold, by pod, run and step, but those of some
-- runs.
-- Caller: LeavePod and ExpirePods, in a statement after the one that locked the
-- pods. Index: claims_pkey; tasks_pkey, probed per task.
select c.pod, g.run_id, g.step, g.epoch
from {schema}.claims c,
	unnest(c.runs, c.steps, c.epochs) as g (run_id, step, epoch),
	lateral (select k.state, k.pod, k.epoch from {schema}.tasks k where k.run_id = g.run_id and k.step = g.step offset 0) t
where c.pod = any(@pods::bigint[]) and not g.run_id = any(@skip::uuid[]) and t.state = 3 and t.pod = c.pod and t.epoch = g.epoch
order by 1, 2, 3
limit @limit::int
