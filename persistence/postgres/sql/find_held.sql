-- find_held: the tenants among some in whose counters of new runs somebody else
-- holds a row, and a transaction that does.
-- Caller: triggers, after a lock was not granted in time, in a transaction that is
-- rolled back. Locks tenant_groups until then, waits for nothing. Index: tenant_groups_pkey, probed per tenant and
-- queue.
with counters as materialized (
	select q.queue, t.group_id, k.holder
	from unnest(@groups::int[]) as t (group_id), {schema}.queues q,
		lateral (
			select k.xmax::text::bigint as holder from {schema}.tenant_groups k
			where k.queue = q.queue and k.group_id = t.group_id and k.lane = 1 offset 0
		) k
),
open as materialized (
	select c.queue, c.group_id
	from counters c,
		lateral (
			select from {schema}.tenant_groups k
			where k.queue = c.queue and k.group_id = c.group_id and k.lane = 1 offset 0 for no key update skip locked
		) k
)
select c.group_id, max(c.holder)
from counters c
where (c.queue, c.group_id) not in (select o.queue, o.group_id from open o)
group by c.group_id
