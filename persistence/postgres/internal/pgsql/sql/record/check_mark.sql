-- check_mark: the role that the transaction of a step was begun with, empty if
-- this is not that transaction or all settings were reset, the role now, and that
-- of the session.
-- Caller: RecordInTx, before the engine's statements in a user's transaction.
select coalesce(pg_catalog.current_setting('troupe.step', true), ''), current_user::pg_catalog.text, session_user::pg_catalog.text
