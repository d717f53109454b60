-- explain_lockers: the sessions that have locked rows of a run, by the
-- transaction that is written into the rows.
-- Caller: Situation. Locks nothing. Index: the primary keys.
select distinct l.pid
from (
	select r.xmax from {schema}.workflow_runs r where r.id = @run
	union
	select t.xmax from {schema}.tasks t where t.run_id = @run and t.state < 10
) x join pg_locks l on l.locktype = 'transactionid' and l.granted and l.transactionid = x.xmax
