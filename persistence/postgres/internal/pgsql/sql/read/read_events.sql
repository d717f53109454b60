-- read_events: the history of a run in the order of time; within one
-- transaction parents come before children, and the end of the run last.
-- Caller: Events. Index: that of each span of task_events, which says what pages
-- may hold the run, or that of a span of run_history.
{live_or_old},
{events_of_run}
select e.step, e.n, e.kind, e.at, e.pod, e.attempt, e.delay, e.wake_at, e."by", e.class, e.text
from e
order by e.at, e.kind in (35, 36, 37), e.step, e.n
offset @after::bigint
limit @limit::int
