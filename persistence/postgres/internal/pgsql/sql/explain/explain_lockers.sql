-- explain_lockers: the sessions, or prepared transactions, that have locked rows of a run,
-- or what gives its tenant places, by the transaction that is written into the rows.
-- Caller: Situation. Locks nothing. Index: the primary keys.
select distinct coalesce(l.pid, 0), coalesce(p.gid, '')
from (
	select r.xmax from {schema}.workflow_runs r where r.id = @run
	union
	select t.xmax from {schema}.tasks t where t.run_id = @run and t.state < 10
	union
	select k.xmax
	from {schema}.workflow_runs r, {schema}.queues q,
		lateral (
			select k.xmax from {schema}.tenant_groups k
			where k.queue = q.queue and k.group_id = r.group_id and k.lane in (0, 1) offset 0
		) k
	where r.id = @run
) x
	join pg_locks l on l.locktype = 'transactionid' and l.granted and l.transactionid = x.xmax
	left join pg_prepared_xacts p on p.transaction = l.transactionid
