-- look_tenant: whether a tenant has a group or could get one now, and where this is
-- asked: the name of the database, and when its server was started.
-- Caller: TriggerInTx, which gives out no group: others would wait for its
-- transaction. Locks nothing. Index: tenants_pkey, and the one of group_id for
-- its end.
select exists (select from {schema}.tenants k where k.tenant = @tenant)
	or not exists (select from {schema}.tenants k where k.group_id >= @group_max::int),
	pg_catalog.current_database()::text, pg_catalog.pg_postmaster_start_time()
