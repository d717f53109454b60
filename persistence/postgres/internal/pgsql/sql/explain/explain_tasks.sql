-- explain_tasks: the tasks of a run that have not ended, by step.
-- Caller: Situation. Index: tasks_pkey, one range; the rest is probed per task. Events of the
-- run, and its inbox, are read if a task waits for a signal.
with waits as materialized (
	select e.step, max(e.at) as since
	from (
		select k.step, k.at from {schema}.task_events k where k.run_id = @run and k.kind in (13, 16)
		union all
		select k.step, k.at from {schema}.task_events_kept k where k.run_id = @run and k.kind in (13, 16)
	) e
	where exists (select from {schema}.tasks k where k.run_id = @run and k.state = 6)
	group by e.step
),
sent as materialized (
	select k.name from {schema}.inbox k
	where k.run_id = @run and k.n is null and exists (select from {schema}.tasks t where t.run_id = @run and t.state = 6)
	group by k.name
)
select t.step, coalesce(t.name, s.name), t.state, t.pending, t.children, t.attempt, t.lost, t.class, t.error, t.pod, t.queue, q.name, t.handler,
	t.queued_at, t.started_at, w.wake_at, e.wake_at,
	t.state = 2 and exists (select from {schema}.parked_tasks k where k.run_id = t.run_id and k.step = t.step),
	case when t.state = 6 then coalesce(s.signal, '') else '' end, t.state = 6 and t.traits & 64 <> 0, case when t.state = 6 then n.since end,
	t.state = 6 and coalesce(s.signal in (select k.name from sent k), false),
	c.id, case when c.id is not null then s.child end, c.state, case c.state when 1 then c.created_at when 3 then c.started_at end,
	coalesce(m.items, 0), coalesce(m.items_left, 0), coalesce(m.open, 0), coalesce(m.failed, 0),
	case when t.traits & 1024 > 0 and t.declared is not null then t.owner else 0 end,
	t.traits & 2048 > 0, t.traits & 4096 > 0,
	case when t.traits & 2048 > 0 then array(
		select k.signal from {schema}.definition_steps k where k.definition = r.definition and k.signal is not null order by k.signal
	) end
from {schema}.workflow_runs r
	join lateral (select * from {schema}.tasks k where k.run_id = r.id and k.state < 10 order by k.step offset 0) t on true
	left join lateral ( -- of what a machine has started (trait 4096) its name says of which step it is
		select k.name, k.signal, k.child from {schema}.definition_steps k
		where k.definition = r.definition and t.traits & 4096 = 0 and k.step = coalesce(t.declared, t.step)
		union all
		select k.name, k.signal, k.child from {schema}.definition_steps k
		where k.definition = r.definition and t.traits & 4096 > 0 and t.child is not null and k.name = split_part(t.name, '#', 1)
		offset 0
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
	left join waits n on n.step = t.step
	left join lateral (
		select t.child as id, k.state, k.created_at, k.started_at
		from (values (1)) one left join {schema}.workflow_runs k on k.id = t.child
		where t.state = 6 and t.child is not null offset 0
	) c on true
	left join lateral (
		select k.items, k.items_left, k.open, k.failed from {schema}.maps k
		where t.state = 6 and t.traits & 1024 > 0 and k.run_id = r.id and k.step = t.step offset 0
	) m on true
where r.id = @run and coalesce(t.name, s.name) is not null
order by t.step
