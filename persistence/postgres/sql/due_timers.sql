-- due_timers: the timers that have been due for longest, but for those of runs that
-- are not there, and after: for those that are older.
-- Caller: FireTimers. Locks nothing: runs come first in the lock order; the
-- timers are read again under the locks of their runs.
-- Index: durable_timers_by_wake_at, up to the present: the clock is read once;
-- workflow_runs_pkey, probed per timer.
select t.run_id, t.step, t.kind
from {schema}.durable_timers t
where t.wake_at <= (select clock_timestamp()) and not t.run_id = any(@skip::uuid[])
	and t.wake_at >= coalesce(@after::timestamptz, '-infinity') and exists (select from {schema}.workflow_runs r where r.id = t.run_id offset 0)
order by t.wake_at, t.run_id, t.step, t.kind
limit @limit::int
