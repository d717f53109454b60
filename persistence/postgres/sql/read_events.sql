-- read_events: the history of a run in the order of time; within one
-- transaction parents come before children, and the end of the run last.
-- Caller: Events. Index: task_events_by_run: the pages that may hold the run.
select e.step, e.n, e.kind, e.at, e.pod, e.attempt, e.delay, e.wake_at, e."by", e.class, e.text
from {schema}.task_events e
where e.run_id = @run
order by e.at, e.kind in (35, 36, 37), e.step, e.n
offset @after::bigint
limit @limit::int
