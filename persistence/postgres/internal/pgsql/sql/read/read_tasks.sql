-- read_tasks: the tasks of a run as readers see them, by step, without elements of maps.
-- Caller: Tasks. Index: tasks_pkey, one range, or that of a span of run_history;
-- the rest is probed per task. With outputs false none is read,
-- but of runs in history the small ones.
{live_or_old},
{tasks_of_run},
m as materialized (
	select k.step, k.items, k.items_left, k.open, k.failed from {schema}.maps k where k.run_id = @run
	union all
	select h.maps[n.i][1], h.maps[n.i][4], h.maps[n.i][5], h.maps[n.i][7], h.maps[n.i][8]
	from old h, generate_subscripts(h.maps, 1) as n (i)
	where h.slice = 0
),
r as materialized (
	select k.id, k.definition, k.tenant from live k
	union all
	select h.id, h.definition, h.tenant from old h where h.slice = 0
)
select t.step, coalesce(t.name, s.name), t.state, t.traits, t.epoch, t.attempt, t.lost, t.pod, p.name, t.output, coalesce(t.size, -1), t.class, t.error, w.wake_at,
	t.started_at, t.finished_at, k.run_id is not null, t.child,
	coalesce(m.items, 0), coalesce(m.items_left, 0), coalesce(m.open, 0), coalesce(m.failed, 0)
from r
	cross join t
	left join lateral (
		select k.name from {schema}.definition_steps k where k.definition = r.definition and k.step = coalesce(t.declared, t.step) offset 0
	) s on true
	left join lateral (select k.name from {schema}.pod_names k where k.pod = t.pod offset 0) p on true
	left join lateral (
		select k.wake_at from {schema}.durable_timers k
		where k.run_id = r.id and k.step = t.step and k.kind in (1, 2, 7) order by k.kind limit 1
	) w on true
	left join lateral (
		select k.run_id from {schema}.parked_tasks k where t.state = 2 and k.run_id = r.id and k.step = t.step offset 0
	) k on true
	left join lateral (select k.* from m k where k.step = t.step) m on true
where (@tenant::text = '' or r.tenant = @tenant::text) and coalesce(t.name, s.name) is not null
order by t.step
