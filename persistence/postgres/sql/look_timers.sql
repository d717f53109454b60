-- look_timers: who leads, the first timer, and the first of all, which is earlier if
-- its run is not there. One statement, so that an idle leader sends no transactions.
-- Caller: FireTimers, first. Locks nothing. Index: durable_timers_by_wake_at.
select clock_timestamp(), exists (select 1 from {schema}.leader_epoch l where l.epoch = @epoch),
	(
		select t.wake_at from {schema}.durable_timers t where not t.run_id = any(@skip::uuid[])
			and t.wake_at >= coalesce(@after::timestamptz, '-infinity') and exists (select from {schema}.workflow_runs r where r.id = t.run_id offset 0)
		order by t.wake_at limit 1
	),
	(select t.wake_at from {schema}.durable_timers t where not t.run_id = any(@skip::uuid[]) order by t.wake_at limit 1)
