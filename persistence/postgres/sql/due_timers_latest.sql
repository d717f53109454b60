-- due_timers_latest: the timers that became due last.
-- Caller: FireTimers, as due_timers.
-- Index: durable_timers_by_wake_at, backwards from the present: the clock is read
-- once.
select t.run_id, t.step, t.kind, exists (select from {schema}.workflow_runs r where r.id = t.run_id offset 0)
from (
	select n.*
	from (
		select k.run_id, k.step, k.kind, k.wake_at
		from {schema}.durable_timers k
		where k.wake_at <= (select clock_timestamp()) and not k.run_id = any(@skip::uuid[])
		order by k.wake_at desc
		limit @limit::int + 1000
	) n
	order by n.wake_at desc, n.run_id desc, n.step desc, n.kind desc
	limit @limit::int
) t
