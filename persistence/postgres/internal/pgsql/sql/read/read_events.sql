-- read_events: the events of a run that a position does not cover, in the order of time;
-- within one transaction parents come before children, and the end of the run last. Of a
-- step they come in the order of their numbers, also if the clock was set back meanwhile.
-- Caller: Events. Index: that of each span of task_events, which says what pages
-- may hold the run, or that of a span of run_history.
{live_or_old},
{events_of_run}
select u.step, u.n, u.kind, u.at, u.pod, u.attempt, u.delay, u.wake_at, u."by", u.class, u.text,
	(select p.name from {schema}.pod_names p where p.pod = u.pod)
from (
	select e.*, max(e.at) over (partition by e.step order by e.n) as reached
	from e
	where e.n > coalesce((@seen::bigint[])[e.step + 2], 0) -- the first is that of the run, whose step is -1
) u
order by u.reached, u.kind in (35, 36, 37), u.step, u.n
limit @limit::int
