-- due_timers: the timers that have been due for longest, and whether their runs are
-- there. Equals are in order where they are fewer than a thousand: else all of them
-- would have to be read.
-- Caller: FireTimers. Locks nothing: runs come first in the lock order; the
-- timers are read again under the locks of their runs.
-- Index: durable_timers_by_wake_at, up to the present: the clock is read once;
-- workflow_runs_pkey, probed per timer.
select t.run_id, t.step, t.kind, exists (select from {schema}.workflow_runs r where r.id = t.run_id offset 0)
from (
	select n.*
	from (
		select k.run_id, k.step, k.kind, k.wake_at
		from {schema}.durable_timers k
		where k.wake_at <= (select clock_timestamp()) and not k.run_id = any(@skip::uuid[])
		order by k.wake_at
		limit @limit::int + 1000
	) n
	order by n.wake_at, n.run_id, n.step, n.kind
	limit @limit::int
) t
