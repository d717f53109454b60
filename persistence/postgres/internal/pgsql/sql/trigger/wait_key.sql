-- wait_key: takes the lock of an idempotency key until the user's transaction
-- ends. Caller: TriggerInTx.
select pg_catalog.pg_advisory_xact_lock(@lock::bigint)
