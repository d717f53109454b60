-- end_unread: ends sessions of the engine's that hold locks while they send an answer that
-- the client does not read any more, or wait for the rest of a batch: of a pod that froze, or that the network
-- cut off, since no timeout of the server ends what sends, or receives in its middle. Those of calls that their callers gave up; those
-- of before the lease of a pod ran out that could not be declared dead a second ago: it
-- is locked by one of them. None that this role may not end, which would be an error.
-- Caller: ExpirePods. Index: none, sessions are in the server's memory; pods are few.
select count(pg_catalog.pg_terminate_backend(a.pid))
from pg_catalog.pg_stat_activity a
where {unread} and strpos(a.query, @schema::text) > 0 and {may_end} and (
	a.query_start < clock_timestamp() - @given_up::bigint * interval '1 microsecond'
	or exists (
		select 1 from {schema}.pods p
		where not p.dead and p.expires_at <= least(clock_timestamp() - interval '1 second', @by::timestamptz) and a.query_start <= p.expires_at
	)
)
