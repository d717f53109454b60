-- read_tasks: the tasks of a run as readers see them, by step.
-- Caller: Tasks. Index: tasks_pkey, one range; the rest is probed per task.
select t.step, s.name, t.state, t.traits, t.epoch, t.attempt, t.lost, t.pod, p.name, t.output, t.class, t.error, w.wake_at,
	t.started_at, t.finished_at, k.run_id is not null
from {schema}.every_run r,
	lateral (select * from {schema}.every_task k where k.run_id = r.id order by k.step offset 0) t,
	lateral (
		select k.name from {schema}.definition_steps k where k.definition = r.definition and k.step = t.step offset 0
	) s
	left join lateral (select k.name from {schema}.pods k where k.id = t.pod offset 0) p on true
	left join lateral (
		select k.wake_at from {schema}.durable_timers k
		where k.run_id = r.id and k.step = t.step and k.kind in (1, 2) order by k.kind limit 1
	) w on true
	left join lateral (
		select k.run_id from {schema}.parked_tasks k where t.state = 2 and k.run_id = r.id and k.step = t.step offset 0
	) k on true
where r.id = @run and (@tenant::text = '' or r.tenant = @tenant::text)
order by t.step
