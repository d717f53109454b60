-- some_parked: whether timers are parked. Caller: FireTimers, every minute.
-- Locks nothing.
select exists (select 1 from {schema}.parked_timers p)
