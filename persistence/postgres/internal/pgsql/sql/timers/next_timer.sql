-- next_timer: the time, and when the earliest timer is due. Of those that are due by now,
-- those of runs that are not there, of some runs, tenants and definitions, and of kinds
-- that the caller does not know do not count, and no more than so many are walked past.
-- Caller: FireTimers.
-- Index: durable_timers_by_wake_at; workflow_runs_pkey, probed per timer that is due.
with clock as materialized (select clock_timestamp() as now)
select (select now from clock), min(t.wake_at)
from (
	(
		select k.wake_at
		from (
			select d.wake_at, d.run_id, d.kind
			from {schema}.durable_timers d
			where d.wake_at <= (select now from clock) and not d.run_id = any(@skip::uuid[])
			order by d.wake_at
			limit @walk::int
		) k
		where k.kind = any(@kinds::smallint[]) and exists (
			select from {schema}.workflow_runs r
			where r.id = k.run_id and not r.definition = any(@foreign::int[]) and not coalesce(r.group_id = any(@but::bigint[]), false)
			offset 0
		)
		order by k.wake_at limit 1
	)
	union all
	(
		select d.wake_at
		from {schema}.durable_timers d
		where d.wake_at > (select now from clock) and not d.run_id = any(@skip::uuid[])
		order by d.wake_at limit 1
	)
) t
