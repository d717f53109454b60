-- read_events: the history of a run in the order of time; within one
-- transaction parents come before children, and the end of the run last.
-- Caller: Events. Index: that of each span of task_events, which says what pages
-- may hold the run, and of each span of run_history.
select e.step, e.n, e.kind, e.at, e.pod, e.attempt, e.delay, e.wake_at, e."by", e.class, e.text
from {schema}.every_event e
where e.run_id = @run
order by e.at, e.kind in (35, 36, 37), e.step, e.n
offset @after::bigint
limit @limit::int
