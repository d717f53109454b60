-- lock_tenants: one writer of tenants at a time, so that group numbers stay
-- dense. Caller: the intake, when it meets a new tenant.
select pg_advisory_xact_lock(@key)
