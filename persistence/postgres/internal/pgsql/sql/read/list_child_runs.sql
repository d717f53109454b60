-- list_child_runs: the child runs that the steps of a run have begun, newest first, also those
-- that are gone.
-- Caller: ListRuns, page by page. Locks nothing. Index: tasks_with_child, one range, or that of a
-- span of run_history.
{live_or_old}
select z.child
from (
	select k.child from {schema}.tasks k where k.run_id = @run and k.child is not null
	union all
	select u.child from old h, unnest(h.child_runs) as u (child) where u.child is not null
) z
where z.child < @before::uuid and z.child >= @from::uuid
order by z.child desc
limit @limit::int
