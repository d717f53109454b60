-- explain_leader: the session that holds the leader's lock, and whether that is the session of the pod
-- that led last, which its name tells; of a long or foreign one no more than that it is a
-- leader's. A leader says something every few seconds, so for how long its session has not
-- tells a session that hangs. A standby does not know of sessions: there it is taken for granted.
-- Caller: Situation. Reads the catalog only.
with leader (name) as (
	select 'troupe leader ' || @schema::text || ' ' || @holder::bigint
)
select coalesce(l.pid, 0), coalesce(a.application_name, ''), coalesce(p.gid, ''),
	coalesce(case when n.name ~ '^[ -~]{1,63}$' then a.application_name = n.name or starts_with(a.application_name, n.name || ' ')
		else starts_with(a.application_name, 'troupe leader ') end, false),
	coalesce(extract(epoch from clock_timestamp() - greatest(a.query_start, a.state_change)), 0)::float8
from leader n
	join pg_locks l on l.locktype = 'advisory' and l.granted and l.objsubid = 1 and (l.classid::bigint << 32 | l.objid::bigint) = @key::bigint
	left join pg_stat_activity a on a.pid = l.pid
	left join pg_locks x on l.pid is null and x.locktype = 'transactionid' and x.virtualtransaction = l.virtualtransaction
	left join pg_prepared_xacts p on p.transaction = x.transactionid
where l.database = (select d.oid from pg_database d where d.datname = current_database())
union all
select 0, '', '', true, 0 where pg_is_in_recovery()
