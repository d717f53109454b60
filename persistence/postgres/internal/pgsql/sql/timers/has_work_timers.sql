-- has_work_timers: whether the caller leads, and the first timer that is not of some runs. One statement, so that
-- an idle leader sends no transactions.
-- Caller: FireTimers, first. Locks nothing. Index: durable_timers_by_wake_at.
select clock_timestamp(), exists (select 1 from {schema}.leader_epoch l where l.epoch = @epoch),
	(
		select t.wake_at from {schema}.durable_timers t
		where not t.run_id = any(@skip::uuid[]) order by t.wake_at limit 1
	)
