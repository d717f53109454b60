-- read_places: of each queue, the tenants that have places to be served, with how far those
-- of each lane are from what was served last, the furthest first.
-- Caller: Queues. Index: tenant_groups_pkey, one range per queue, or a row of it for a
-- tenant; tenants_group_id_key, probed per tenant.
with o as materialized (
	select (select n.group_id from {schema}.tenants n where n.tenant = @tenant::text) as group_id
)
select q.name, n.tenant, k.continuing, k.fresh
from (select * from {schema}.queues k order by k.name limit @queues::int) q
	left join lateral (select f.block from {schema}.frontiers f where f.queue = q.queue and f.band = 0 offset 0) f on true,
	o,
	lateral (
		select k.group_id, coalesce(max(k.block - coalesce(f.block, 0)) filter (where k.lane = 0), 0) as continuing,
			coalesce(max(k.block - coalesce(f.block, 0)) filter (where k.lane = 1), 0) as fresh
		from {schema}.tenant_groups k
		where k.queue = q.queue and k.block > coalesce(f.block, 0)
			and k.group_id >= case when @tenant::text is null then 0 else o.group_id end
			and k.group_id <= case when @tenant::text is null then 2147483647 else o.group_id end
		group by k.group_id
		order by max(k.block) desc, k.group_id
		limit @places::int
	) k,
	lateral (select n.tenant from {schema}.tenants n where n.group_id = k.group_id offset 0) n
order by q.name, greatest(k.continuing, k.fresh) desc, n.tenant
