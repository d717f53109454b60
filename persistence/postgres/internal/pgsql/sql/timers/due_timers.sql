-- due_timers: timers that are due from an instant on, those that became due first or
-- last. It walks past so many at most, and says how many that were, how many of them are
-- of runs that are not there, how many of kinds that the caller does not know, and where
-- it ended. Those of some runs, tenants and definitions and of other kinds are walked
-- past. blind: without a look at the runs.
-- Caller: FireTimers. Locks nothing: runs come first in the lock order; the
-- timers are read again under the locks of their runs.
-- Index: durable_timers_by_wake_at, up to the present: the clock is read once;
-- workflow_runs_pkey, probed per timer.
with clock as materialized (select clock_timestamp() as now),
near as materialized (
	(
		select k.run_id, k.step, k.kind, k.wake_at
		from {schema}.durable_timers k
		where not @latest::bool and k.wake_at >= coalesce(@from::timestamptz, '-infinity') and k.wake_at <= (select now from clock)
			and not k.run_id = any(@skip::uuid[])
		order by k.wake_at
		limit @walk::int
	)
	union all
	(
		select k.run_id, k.step, k.kind, k.wake_at
		from {schema}.durable_timers k
		where @latest::bool and k.wake_at <= (select now from clock) and not k.run_id = any(@skip::uuid[])
		order by k.wake_at desc
		limit @walk::int
	)
),
walked as materialized (
	select t.*, r.definition, r.group_id
	from near t
		left join lateral (
			select k.definition, k.group_id from {schema}.workflow_runs k where not @blind::bool and k.id = t.run_id offset 0
		) r on true
)
select s.count, s.missing, s.later, s.last, w.run_id, w.step, w.kind, w.wake_at
from (
	select count(*)::int as count,
		count(*) filter (where not @blind::bool and definition is null and kind = any(@kinds::smallint[]))::int as missing,
		count(*) filter (where not kind = any(@kinds::smallint[]))::int as later, max(wake_at) as last from walked
) s
	left join (
		select * from walked
		where kind = any(@kinds::smallint[]) and (
			@blind::bool or definition is not null and not definition = any(@foreign::int[]) and not coalesce(group_id = any(@but::bigint[]), false)
		)
		order by case when @latest::bool then wake_at end desc, wake_at, run_id, step, kind
		limit @limit::int
	) w on true
