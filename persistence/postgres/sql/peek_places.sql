-- peek_places: the next places of a queue that a pod may take, but those of some
-- tenants and runs. It reads the queue alone.
-- Caller: claims around what cannot be read, and around what somebody holds.
-- Index: ready_queue_pkey.
select q.fair_id, q.run_id, q.step, q.suspect, true
from {schema}.ready_queue q
where q.queue = @queue::smallint and q.band = 0 and q.fair_id >= @after::bigint and q.handler = any(@handlers::int[])
	and (@suspects::bool or not q.suspect) and not (q.fair_id % 2097152 / 2 = any(@but::bigint[]))
	and not q.run_id = any(@skip::uuid[])
order by q.fair_id
limit @limit::int
