-- due_timers_latest: the timers that became due last.
-- Caller: FireTimers, as due_timers.
-- Index: durable_timers_by_wake_at, backwards from the present: the clock is read once;
-- workflow_runs_pkey, probed per timer.
with clock as materialized (select clock_timestamp() as now),
walked as materialized (
	select t.run_id, t.step, t.kind, t.wake_at,
		(select r.definition from {schema}.workflow_runs r where r.id = t.run_id offset 0) as definition
	from (
		select k.run_id, k.step, k.kind, k.wake_at
		from {schema}.durable_timers k
		where k.wake_at >= coalesce(@from::timestamptz, '-infinity') and k.wake_at <= (select now from clock) and not k.run_id = any(@skip::uuid[])
		order by k.wake_at desc
		limit @walk::int
	) t
)
select clock.now, s.count, s.missing, s.later, s.last, w.run_id, w.step, w.kind, w.wake_at
from clock, (
	select count(*)::int as count, count(*) filter (where definition is null and kind = any(@kinds::smallint[]))::int as missing,
		count(*) filter (where not kind = any(@kinds::smallint[]))::int as later, max(wake_at) as last from walked
) s
	left join (
		select * from walked where definition is not null and not definition = any(@foreign::int[]) and kind = any(@kinds::smallint[])
		order by wake_at desc, run_id desc, step desc, kind desc
		limit @limit::int
	) w on true
