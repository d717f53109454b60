-- find_tenants: the groups of tenants that have one. Caller: the intake.
-- Index: tenants_pkey, probed per tenant.
select k.tenant, k.group_id
from (select distinct tenant collate "C" as tenant from unnest(@tenants::text[]) as z (tenant)) d,
	lateral (select k.tenant, k.group_id from {schema}.tenants k where k.tenant = d.tenant offset 0) k
