-- known_held: the runs among some that some transactions hold, or whose tenants'
-- counters they do (then true).
-- Caller: completions and claims, while somebody is known to hold something.
-- Index: workflow_runs_pkey and tenant_groups_pkey, probed per run, and per tenant
-- and queue.
with asked as materialized (
	select k.id, k.group_id, k.xmax::text::bigint as holder
	from (select distinct id from unnest(@runs::uuid[]) as z (id)) d,
		lateral (select k.id, k.group_id, k.xmax from {schema}.workflow_runs k where k.id = d.id offset 0) k
),
held as materialized (
	select distinct t.group_id
	from (select distinct a.group_id from asked a) t, {schema}.queues q,
		lateral (
			select from {schema}.tenant_groups k
			where k.queue = q.queue and k.group_id = t.group_id and k.lane in (0, 1)
				and k.xmax::text::bigint = any(@holders::bigint[]) offset 0
		) k
)
select a.id, h.group_id is not null
from asked a left join held h using (group_id)
where h.group_id is not null or a.holder = any(@holders::bigint[])
