-- check_mark: the role that the transaction of a step was begun with, empty where
-- all settings were reset since; the role now; and whether this is that
-- transaction, which the lock that it was begun with tells where the mark is gone.
-- Caller: RecordInTx, before the engine's statements in a user's transaction.
select m.mark, current_user::text, m.mark <> '' or exists (
	select from pg_catalog.pg_locks l
	where l.pid = pg_catalog.pg_backend_pid() and l.locktype = 'advisory' and l.objsubid = 1 and l.granted
		and (l.classid::bigint << 32 | l.objid::bigint) = @key::bigint
)
from (values (coalesce(pg_catalog.current_setting('troupe.step', true), ''))) m (mark)
