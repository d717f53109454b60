-- due_timers_latest: the timers that became due last.
-- Caller: FireTimers, as due_timers.
-- Index: durable_timers_by_wake_at, backwards from the present: the clock is read
-- once.
select t.run_id, t.step, t.kind
from {schema}.durable_timers t
where t.wake_at <= (select clock_timestamp()) and not t.run_id = any(@skip::uuid[])
	and t.wake_at >= coalesce(@after::timestamptz, '-infinity') and exists (select from {schema}.workflow_runs r where r.id = t.run_id offset 0)
order by t.wake_at desc, t.run_id desc, t.step desc, t.kind desc
limit @limit::int
