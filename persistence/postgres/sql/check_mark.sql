-- check_mark: the role that the transaction of a step was begun with, empty if
-- this is not that transaction, and the role now.
-- Caller: RecordInTx, before the engine's statements in a user's transaction.
select coalesce(pg_catalog.current_setting('troupe.step', true), ''), current_user::text
