-- peek_ready: the next rows of a queue that a pod may take, but those of some
-- tenants, runs and definitions, with whether their task is still queued.
-- Caller: claims under a limit per tenant, before they lock rows.
-- Index: ready_queue_pkey; tasks_pkey and workflow_runs_pkey, probed per task.
select q.fair_id, q.run_id, q.step, q.suspect, coalesce(t.queued, false)
from {schema}.ready_queue q
	left join lateral (
		select k.state = 2 as queued from {schema}.tasks k where k.run_id = q.run_id and k.step = q.step offset 0
	) t on true
where q.queue = @queue::smallint and q.band = 0 and q.fair_id >= @after::bigint and q.handler = any(@handlers::int[])
	and (@suspects::bool or not q.suspect) and not (q.fair_id % 2097152 / 2 = any(@but::bigint[]))
	and not q.run_id = any(@skip::uuid[])
	and (cardinality(@foreign::int[]) = 0 or not exists (
		select from {schema}.workflow_runs r where r.id = q.run_id and r.definition = any(@foreign::int[]) offset 0
	))
order by q.fair_id
limit @limit::int
