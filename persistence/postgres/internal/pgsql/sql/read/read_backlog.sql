-- read_backlog: how much waits, of each kind up to a number, in rows of five kinds: 1 a
-- queue with its ready tasks, and when the one became ready that has waited for longest of
-- the first ones; 2 parked tasks of a step; 3 dead letters of a reason that were not
-- requeued; 4 when the oldest trigger of the intake was stored; 5 for how many seconds the
-- oldest transaction of the database has been open.
-- Caller: Backlog. Locks nothing. Index: ready_queue_pkey, one range per queue;
-- tasks_pkey, probed per task; parked_tasks_by_handler; intake_pkey, its first row.
select clock_timestamp(), 1::smallint, q.name, '', 0::smallint,
	(select count(*) from (select from {schema}.ready_queue k where k.queue = q.queue limit @most::int) k)::int,
	(
		select min(t.queued_at)
		from (select k.run_id, k.step from {schema}.ready_queue k where k.queue = q.queue order by k.band, k.fair_id limit @look::int) k,
			lateral (select t.queued_at from {schema}.tasks t where t.run_id = k.run_id and t.step = k.step and t.state = 2 offset 0) t
	), 0::float8
from {schema}.queues q
union all
select clock_timestamp(), 2, coalesce(h.workflow, ''), coalesce(h.step, ''), 0, sum(p.tasks)::int, null, 0
from (
	select k.handler, count(*) as tasks from (select k.handler from {schema}.parked_tasks k limit @most::int) k group by 1
) p
	left join {schema}.handlers h on h.handler = p.handler
group by 3, 4
union all
select clock_timestamp(), 3, '', '', l.reason, count(*)::int, null, 0
from (select k.reason, k.requeues from {schema}.dead_letters k limit @most_dead::int) l
where l.requeues = 0
group by l.reason
union all
select clock_timestamp(), 4, '', '', 0, 0, r.created_at, 0
from (select k.run_id from {schema}.intake k where k.signal is null order by k.id limit 1) i,
	lateral (select k.created_at from {schema}.workflow_runs k where k.id = i.run_id offset 0) r
union all
select clock_timestamp(), 5, '', '', 0, 0, null, coalesce(max(extract(epoch from clock_timestamp() - x.at)), 0)::float8
from (
	select a.xact_start as at from pg_stat_activity a
	where a.datname = current_database() and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
	union all
	select p.prepared from pg_prepared_xacts p where p.database = current_database()
) x
