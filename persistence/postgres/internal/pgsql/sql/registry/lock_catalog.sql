-- lock_catalog: one writer of definitions, handlers and queues at a time, so
-- that numbers stay dense. Caller: RegisterDefinitions, at a pod's start.
select pg_advisory_xact_lock(@key)
