-- find_alive: which transactions, among some, go on, those of savepoints that were
-- released until the whole ends, and what the server has counted to. A number is what stands in a row, the last 32 bits
-- of what the server counts; ahead is how far it is before the first that nobody knows
-- to have ended. A few may be, which hold the locks on their own numbers; what is far
-- ahead is past, or no transaction's. Where several share a lock their number is that of
-- a set, which goes on as long as one of them does; sets are counted by themselves, and
-- those that are older than any database's oldest cannot be asked for; a database whose
-- removal was broken off (-2) does not count.
-- Caller: whoever locks runs or counters, after a lock was not granted in time.
with next as materialized (
	select pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::bigint as n,
		(select max(pg_catalog.mxid_age(d.datminmxid)) from pg_catalog.pg_database d where d.datconnlimit <> -2) as oldest
),
numbers as materialized (
	select h.holder, h.holder as number from unnest(@holders::bigint[]) as h (holder)
	union all
	select h.holder, m.xid::text::bigint
	from unnest(@holders::bigint[]) as h (holder), next,
		pg_catalog.pg_get_multixact_members(
			case when pg_catalog.mxid_age(h.holder::text::pg_catalog.xid) between 1 and next.oldest then h.holder::text::pg_catalog.xid end
		) m
)
select distinct h.holder, next.n
from numbers h, next,
	lateral (
		select (h.number - next.n % 4294967296 + 6442450944) % 4294967296 - 2147483648 as ahead offset 0
	) d
where case
	when d.ahead >= 10000 then false
	when d.ahead >= 0 then h.number in (
		select l.transactionid::text::bigint from pg_catalog.pg_locks l where l.locktype = 'transactionid' and l.granted
	)
	when next.n + d.ahead >= 3 then pg_catalog.pg_xact_status((next.n + d.ahead)::text::pg_catalog.xid8) = 'in progress'
	end
