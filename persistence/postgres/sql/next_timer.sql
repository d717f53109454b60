-- next_timer: when the earliest timer is due. Caller: FireTimers.
-- Index: durable_timers_by_wake_at.
select t.wake_at from {schema}.durable_timers t where not t.run_id = any(@skip::uuid[])
	and t.wake_at >= coalesce(@after::timestamptz, '-infinity') and exists (select from {schema}.workflow_runs r where r.id = t.run_id offset 0)
order by t.wake_at limit 1
