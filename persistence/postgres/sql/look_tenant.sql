-- look_tenant: whether a tenant has a group or could get one now.
-- Caller: TriggerInTx, which gives out none: others would wait for its
-- transaction. Locks nothing. Index: tenants_pkey, and the one of group_id for
-- its end.
select exists (select from {schema}.tenants k where k.tenant = @tenant)
	or not exists (select from {schema}.tenants k where k.group_id >= @group_max::int)
