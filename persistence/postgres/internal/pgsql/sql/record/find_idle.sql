-- find_idle: whether a session has been waiting in its transaction for its client's
-- next statement for a second.
-- Caller: RecordInTx, of a step whose time is up. Locks nothing.
select exists (
	select from pg_catalog.pg_stat_activity a
	where a.pid = @pid::bigint and a.datname = pg_catalog.current_database() and a.state like 'idle in transaction%'
		and a.state_change < clock_timestamp() - interval '1 second'
)
