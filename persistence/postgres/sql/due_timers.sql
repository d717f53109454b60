-- due_timers: the timers that have been due for longest, of those that are due from an
-- instant on. It walks past so many at most, and says how many that were, how many of
-- them are of runs that are not there, how many of kinds that the caller does not know, and
-- where it ended. Those of some definitions and of other kinds are walked past. Equals are
-- in order where they are fewer than it walks past: else all of them would have to be read.
-- Caller: FireTimers. Locks nothing: runs come first in the lock order; the
-- timers are read again under the locks of their runs.
-- Index: durable_timers_by_wake_at, up to the present: the clock is read once;
-- workflow_runs_pkey, probed per timer.
with clock as materialized (select clock_timestamp() as now),
walked as materialized (
	select t.run_id, t.step, t.kind, t.wake_at,
		(select r.definition from {schema}.workflow_runs r where r.id = t.run_id offset 0) as definition
	from (
		select k.run_id, k.step, k.kind, k.wake_at
		from {schema}.durable_timers k
		where k.wake_at >= coalesce(@from::timestamptz, '-infinity') and k.wake_at <= (select now from clock) and not k.run_id = any(@skip::uuid[])
		order by k.wake_at
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
		order by wake_at, run_id, step, kind
		limit @limit::int
	) w on true
