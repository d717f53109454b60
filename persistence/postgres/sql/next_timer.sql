-- next_timer: when the earliest timer from an instant on is due, but for those of runs
-- that are not there. Caller: FireTimers.
-- Index: durable_timers_by_wake_at; workflow_runs_pkey, probed per timer.
select t.wake_at from {schema}.durable_timers t
where t.wake_at >= coalesce(@from::timestamptz, '-infinity') and not t.run_id = any(@skip::uuid[])
	and exists (select from {schema}.workflow_runs r where r.id = t.run_id offset 0)
order by t.wake_at limit 1
