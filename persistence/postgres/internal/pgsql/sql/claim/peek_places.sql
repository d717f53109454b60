-- peek_places: the next places of a queue that a pod may take, but those of some
-- tenants and runs, and those of some definitions. It reads the queue alone, unless there
-- are such definitions.
-- Caller: claims around what cannot be read, and around what is locked. Locks
-- ready_queue, skip locked: claims of several pods look at different places.
-- Index: ready_queue_pkey; workflow_runs_pkey, probed per place.
select q.fair_id, q.run_id, q.step, q.suspect, true
from {schema}.ready_queue q
where q.queue = @queue::smallint and q.band = 0 and q.fair_id >= @after::bigint and q.handler = any(@handlers::int[])
	and (@suspects::bool or not q.suspect) and not (q.fair_id % 2097152 / 2 = any(@but::bigint[]))
	and not q.run_id = any(@skip::uuid[])
	and (cardinality(@foreign::int[]) = 0 or not exists (
		select from {schema}.workflow_runs r where r.id = q.run_id and r.definition = any(@foreign::int[]) offset 0
	))
order by q.fair_id
limit @limit::int
for update of q skip locked
