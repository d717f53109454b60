-- explain_tasks: the tasks of a run that have not ended, by step.
-- Caller: Situation. Index: tasks_pkey, one range; the rest is probed per task.
select t.step, coalesce(t.name, s.name), t.state, t.pending, t.children, t.attempt, t.lost, t.class, t.error, t.pod, t.queue, q.name, t.handler,
	t.queued_at, t.started_at, w.wake_at, e.wake_at,
	t.state = 2 and exists (select from {schema}.parked_tasks k where k.run_id = t.run_id and k.step = t.step)
from {schema}.workflow_runs r
	join lateral (select * from {schema}.tasks k where k.run_id = r.id and k.state < 10 order by k.step offset 0) t on true
	join lateral (
		select k.name from {schema}.definition_steps k where k.definition = r.definition and k.step = coalesce(t.declared, t.step) offset 0
	) s on true
	join {schema}.queues q on q.queue = t.queue
	left join lateral (
		select k.wake_at from {schema}.durable_timers k
		where k.run_id = r.id and k.step = t.step and k.kind in (1, 2, 7) order by k.kind limit 1
	) w on true
	left join lateral (
		select k.wake_at from {schema}.durable_timers k
		where t.state = 2 and k.run_id = r.id and k.step = t.step and k.kind = 4 offset 0
	) e on true
where r.id = @run
order by t.step
