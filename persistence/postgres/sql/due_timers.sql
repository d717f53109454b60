-- due_timers: the earliest timers that are due.
-- Caller: FireTimers. Locks nothing: runs come first in the lock order; the
-- timers are read again under the locks of their runs.
-- Index: durable_timers_by_wake_at.
select t.run_id, t.step
from {schema}.durable_timers t
where t.wake_at <= clock_timestamp() and not t.run_id = any(@skip::uuid[])
order by t.wake_at, t.run_id, t.step, t.kind
limit @limit::int
