-- find_alive: which transactions, among some, go on: those of savepoints that were
-- released until the whole ends. A number is what stands in a row, to which what the
-- server counts beyond 32 bits is added; one that is no transaction's is past.
-- Caller: whoever locks runs or counters, after a lock was not granted in time.
with next as materialized (
	select pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::bigint as n
)
select h.holder
from unnest(@holders::bigint[]) as h (holder), next,
	lateral (
		select next.n - next.n % 4294967296 + h.holder - case when h.holder >= next.n % 4294967296 then 4294967296 else 0 end as whole offset 0
	) f
where case when f.whole >= 3 then pg_catalog.pg_xact_status(f.whole::text::pg_catalog.xid8) end = 'in progress'
