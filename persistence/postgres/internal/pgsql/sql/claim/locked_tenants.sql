-- locked_tenants: the groups of tenants, among some, of which another transaction has
-- locked a row of counters.
-- Caller: every writer of runs, once a lock was not granted in time, behind a savepoint
-- that is rolled back. Locks tenant_groups until then, waits for nothing.
-- Index: tenant_groups_pkey, probed per tenant and queue.
with counters as materialized (
	select q.queue, t.group_id, k.lane
	from unnest(@groups::int[]) as t (group_id), {schema}.queues q,
		lateral (
			select k.lane from {schema}.tenant_groups k
			where k.queue = q.queue and k.group_id = t.group_id and k.lane in (0, 1) offset 0
		) k
),
free as materialized (
	select c.queue, c.group_id, c.lane
	from counters c,
		lateral (
			select from {schema}.tenant_groups k
			where k.queue = c.queue and k.group_id = c.group_id and k.lane = c.lane offset 0 for no key update skip locked
		) k
)
select distinct c.group_id
from counters c
where (c.queue, c.group_id, c.lane) not in (select f.queue, f.group_id, f.lane from free f)
