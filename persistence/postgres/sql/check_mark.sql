-- check_mark: whether this is the transaction that was begun for a step.
-- Caller: RecordInTx, before the engine's statements in a user's transaction.
select coalesce(pg_catalog.current_setting('troupe.step', true), '') = 'on'
