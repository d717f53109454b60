-- known_held_tenants: the tenants among some in whose counters of new runs some
-- transactions hold a row.
-- Caller: triggers, while somebody is known to hold something.
-- Index: tenant_groups_pkey, probed per tenant and queue.
select distinct t.group_id
from unnest(@groups::int[]) as t (group_id), {schema}.queues q,
	lateral (
		select from {schema}.tenant_groups k
		where k.queue = q.queue and k.group_id = t.group_id and k.lane = 1
			and k.xmax::text::bigint = any(@holders::bigint[]) offset 0
	) k
