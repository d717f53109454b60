-- read_running: how many tasks of a tenant (null: of any) pods execute, by queue. Whatever
-- runs is in a claim, and claims are no more than what all pods hold.
-- Caller: Queues. Index: the primary keys, probed per task.
select q.name, count(*)::int
from {schema}.claims c,
	unnest(c.runs, c.steps, c.epochs) as g (run_id, step, epoch),
	lateral (
		select k.state, k.epoch, k.pod, k.queue from {schema}.tasks k where k.run_id = g.run_id and k.step = g.step offset 0
	) t,
	lateral (select r.tenant from {schema}.workflow_runs r where r.id = g.run_id offset 0) r,
	lateral (select k.name from {schema}.queues k where k.queue = t.queue offset 0) q
where t.state = 3 and t.epoch = g.epoch and t.pod = c.pod and (@tenant::text is null or r.tenant = @tenant::text)
group by 1
