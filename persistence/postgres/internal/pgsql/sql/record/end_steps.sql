-- end_steps: ends the sessions that hold the locks of steps of dead pods,
-- but those that this role may not end, which would be an error.
-- Caller: ExpirePods, after its transaction. Index: none, the locks of the server
-- are in its memory.
select count(pg_catalog.pg_terminate_backend(l.pid))
from pg_catalog.pg_locks l join pg_catalog.pg_stat_activity a on a.pid = l.pid
where {may_end} and l.locktype = 'advisory' and l.objsubid = 1 and l.granted and l.pid <> pg_catalog.pg_backend_pid()
	and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = pg_catalog.current_database())
	and (l.classid::bigint << 32 | l.objid::bigint) = any(@keys::bigint[])
