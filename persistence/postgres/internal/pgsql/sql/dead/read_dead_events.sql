-- read_dead_events: the last events of a dead task, oldest first: those of its
-- run or, if that is gone, those that its letter kept.
-- Caller: DeadLetter. Index: task_events_*_by_run, that of a span of run_history.
{live_or_old},
{events_of_run}
select e.step, e.n, e.kind, e.at, e.pod, e.attempt, e.delay, e.wake_at, e."by", e.class, e.text,
	(select p.name from {schema}.pod_names p where p.pod = e.pod)
from (
	select u.*
	from (
		select e.step, e.kind, e.n, e.at, e.pod, e.attempt, e.delay, e.wake_at, e."by", e.class, e.text
		from e where e.step = @step::int
		union all
		select h.step, h.kind, h.n, h.at, h.pod, h.attempt, h.delay, h.wake_at, h."by", h.class, h.text
		from {schema}.dead_letters l,
			jsonb_to_recordset(l.history) as h (step integer, kind smallint, n bigint, at timestamptz, pod bigint, attempt integer,
				delay bigint, wake_at timestamptz, "by" text, class text, text text)
		where l.run_id = @run and l.step = @step::int and not exists (select from live) and not exists (select from old)
	) u
	order by u.n desc
	limit @limit::int
) e
order by e.n
