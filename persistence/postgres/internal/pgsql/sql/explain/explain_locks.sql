-- explain_locks: the given sessions, or if these wait for others the last of these, the
-- given prepared transactions, and those of both that hold a lock on a table of the schema
-- that keeps others from writing; for a second at least. Then those that have touched rows
-- of tables whose rows are passed over if they are locked, which these may do; none of
-- the engine's own: statements that take long hold what they work on. How old another
-- role's transaction is may be hidden; such a one is told of whatever its age.
-- Caller: Situation, before it reads any table. Reads the catalog only.
with recursive chain (pid) as (
	select p.pid from unnest(@pids::int[]) as p (pid)
	union
	select b.pid from chain c, unnest(pg_blocking_pids(c.pid)) as b (pid) where b.pid <> 0
),
heavy as (
	select distinct l.pid, l.virtualtransaction
	from pg_locks l
		join pg_class c on c.oid = l.relation
		join pg_namespace n on n.oid = c.relnamespace
	where l.locktype = 'relation' and l.granted and n.nspname = @schema
		and l.database = (select d.oid from pg_database d where d.datname = current_database())
		and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
),
touched as (
	select l.pid, l.virtualtransaction, array_agg(distinct c.relname::text) as tables
	from pg_locks l
		join pg_class c on c.oid = l.relation
		join pg_namespace n on n.oid = c.relnamespace
	where l.locktype = 'relation' and l.granted and n.nspname = @schema
		and l.database = (select d.oid from pg_database d where d.datname = current_database())
		and l.mode in ('RowShareLock', 'RowExclusiveLock')
		and c.relname in ('ready_queue', 'durable_timers', 'pods', 'claims', 'leader_epoch')
	group by 1, 2
)
select a.pid, coalesce(a.application_name, ''), coalesce(a.query, ''),
	coalesce(extract(epoch from clock_timestamp() - a.xact_start), 0)::float8, coalesce(a.state like 'idle in transaction%', false),
	(select count(distinct w.pid)::int from pg_locks w where not w.granted and a.pid = any(pg_blocking_pids(w.pid))), '', null::text[]
from pg_stat_activity a
where a.pid <> pg_backend_pid()
	and (
		a.pid in (select c.pid from chain c where not exists (select from unnest(pg_blocking_pids(c.pid)) as b (pid) where b.pid <> 0))
		or a.pid in (select h.pid from heavy h)
	)
	and coalesce(a.xact_start < clock_timestamp() - interval '1 second', true)
union all
select 0, '', '', extract(epoch from clock_timestamp() - p.prepared)::float8, true, 0, p.gid, null
from pg_prepared_xacts p
where p.database = current_database()
	and (p.gid = any(@prepared::text[]) or exists (
		select from pg_locks l join heavy h on h.virtualtransaction = l.virtualtransaction
		where l.locktype = 'transactionid' and l.transactionid = p.transaction and l.pid is null and h.pid is null
	))
union all
select a.pid, coalesce(a.application_name, ''), coalesce(a.query, ''),
	coalesce(extract(epoch from clock_timestamp() - a.xact_start), 0)::float8, coalesce(a.state like 'idle in transaction%', false), 0, '', t.tables
from touched t join pg_stat_activity a on a.pid = t.pid
where a.pid <> pg_backend_pid() and coalesce(a.xact_start < clock_timestamp() - interval '1 second', true)
	and coalesce(a.application_name, '') not like 'troupe %'
union all
select 0, '', '', extract(epoch from clock_timestamp() - p.prepared)::float8, true, 0, p.gid, t.tables
from touched t
	join pg_locks l on l.virtualtransaction = t.virtualtransaction and l.locktype = 'transactionid' and l.pid is null
	join pg_prepared_xacts p on p.transaction = l.transactionid
where t.pid is null
order by 1, 7, 8 nulls first
