-- known_held_tenants: the tenants, among some, in whose counters of new runs a holder has
-- a row. A holder is one of holders, or any transaction that goes on and began before the
-- server had counted to before.
-- Caller: triggers, while somebody is known to hold something.
-- Index: tenant_groups_pkey, probed per tenant and queue.
with next as materialized (
	select pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::bigint as n
)
select distinct h.group_id
from next, (
	select t.group_id, k.holder
	from unnest(@groups::int[]) as t (group_id), {schema}.queues q,
		lateral (
			select k.xmax::text::bigint as holder from {schema}.tenant_groups k
			where k.queue = q.queue and k.group_id = t.group_id and k.lane = 1 offset 0
		) k
) h
where {goes_on}
