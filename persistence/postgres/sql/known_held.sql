-- known_held: the runs among some that some transactions hold, or any that goes on
-- and was there before the server had counted to before, or in whose tenants' counters
-- they hold a row (then true). A number in a row is the last 32 bits of what the server
-- counts.
-- Caller: completions and claims, while somebody is known to hold something.
-- Index: workflow_runs_pkey and tenant_groups_pkey, probed per run, and per tenant
-- and queue.
with next as materialized (
	select pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::bigint as n
),
asked as materialized (
	select k.id, k.group_id, k.xmax::text::bigint as holder
	from (select distinct id from unnest(@runs::uuid[]) as z (id)) d,
		lateral (select k.id, k.group_id, k.xmax from {schema}.workflow_runs k where k.id = d.id offset 0) k
),
held as materialized (
	select distinct h.group_id
	from next, (
		select t.group_id, k.holder
		from (select distinct a.group_id from asked a) t, {schema}.queues q,
			lateral (
				select k.xmax::text::bigint as holder from {schema}.tenant_groups k
				where k.queue = q.queue and k.group_id = t.group_id and k.lane in (0, 1) offset 0
			) k
	) h
	where {goes_on}
)
select h.id, t.group_id is not null
from next, asked h left join held t using (group_id)
where t.group_id is not null or {goes_on}
