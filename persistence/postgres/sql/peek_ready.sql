-- peek_ready: the next rows of a queue that a pod may take, but those of some
-- tenants.
-- Caller: claims under a limit per tenant, before they lock anything.
-- Index: ready_queue_pkey.
select q.fair_id, q.suspect
from {schema}.ready_queue q
where q.queue = @queue::smallint and q.band = 0 and q.fair_id >= @after::bigint and q.handler = any(@handlers::int[])
	and (@suspects::bool or not q.suspect) and not (q.fair_id % 2097152 / 2 = any(@full::bigint[]))
order by q.fair_id
limit @limit::int
