-- find_orphans: the runs that are not there and have timers which are due.
-- Caller: FireTimers, once a minute while there are some. Locks nothing.
-- Index: durable_timers_by_wake_at, up to the present; workflow_runs_pkey, probed
-- per timer.
select distinct t.run_id
from (
	select k.run_id from {schema}.durable_timers k
	where k.wake_at <= (select clock_timestamp()) and not k.run_id = any(@skip::uuid[])
		and not exists (select from {schema}.workflow_runs r where r.id = k.run_id offset 0)
	order by k.wake_at
	limit @limit::int
) t
