-- count_running: running tasks per tenant, without those named. Whatever runs
-- is in a claim, and claims are no more than what all pods hold.
-- Caller: claims and records under a limit per tenant, in a statement after
-- try_groups. Index: the primary keys, probed per task.
select r.group_id, count(*)::int
from {schema}.claims c,
	unnest(c.runs, c.steps, c.epochs) as g (run_id, step, epoch),
	lateral (select k.state, k.epoch, k.pod from {schema}.tasks k where k.run_id = g.run_id and k.step = g.step offset 0) t,
	lateral (select k.group_id from {schema}.workflow_runs k where k.id = g.run_id offset 0) r
where t.state = 3 and t.epoch = g.epoch and t.pod = c.pod and r.group_id = any(@groups::int[])
	and not exists (
		select from unnest(@runs::uuid[], @steps::int[]) as e (run_id, step) where e.run_id = g.run_id and e.step = g.step
	)
group by 1
