-- check_step_lock: whether the transaction holds the lock that those of a pod's
-- steps are begun with: it is the one that was begun, whatever its settings are.
-- Caller: RecordInTx, where the mark is gone or the step has failed. Index: none, the locks of the server
-- are in its memory.
select exists (
	select from pg_catalog.pg_locks l
	where l.pid = pg_catalog.pg_backend_pid() and l.locktype = 'advisory' and l.objsubid = 1 and l.granted
		and (l.classid::bigint << 32 | l.objid::bigint) = @key::bigint
)
