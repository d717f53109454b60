-- insert_tenants: gives new tenants the next group numbers, in the order given,
-- as long as there are any. Writes all of them, or fails.
-- Caller: the intake, under lock_tenants and in a statement after it.
with d as materialized (
	select n.tenant, n.group_id
	from (
		select z.tenant, (select coalesce(max(t.group_id), 0) from {schema}.tenants t) + row_number() over (order by z.ord) as group_id
		from (select tenant, min(ord) as ord from unnest(@tenants::text[]) with ordinality as z (tenant, ord) group by 1) z
		where not exists (select from {schema}.tenants t where t.tenant = z.tenant)
	) n
	where n.group_id <= @group_max::int
),
u as (
	insert into {schema}.tenants (tenant, group_id) select d.* from d returning true as written
)
{all_written}
