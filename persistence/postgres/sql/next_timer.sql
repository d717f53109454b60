-- next_timer: when the earliest timer is due. Caller: FireTimers.
-- Index: durable_timers_by_wake_at.
select t.wake_at from {schema}.durable_timers t where not t.run_id = any(@skip::uuid[]) order by t.wake_at limit 1
