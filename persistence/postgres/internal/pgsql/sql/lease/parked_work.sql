-- parked_work: the steps of parked tasks that no living pod registers, with the definition
-- of the run that has the first of their tasks, and the number of these, up to a limit.
-- Caller: ParkTasks, behind the fence. Locks nothing. Index: parked_tasks_by_handler, one
-- probe and one range per handler; the primary keys, probed per handler.
with recursive registered as materialized (
	select distinct h.handler from {schema}.pods p, unnest(p.handlers) as h (handler) where not p.dead
),
waiting (handler) as (
	(select p.handler from {schema}.parked_tasks p where p.handler > 0 order by p.handler limit 1)
	union all
	select n.handler
	from waiting w,
		lateral (select p.handler from {schema}.parked_tasks p where p.handler > w.handler order by p.handler limit 1) n
)
select h.workflow, h.step, coalesce(f.hash, ''), c.count
from waiting w
	join {schema}.handlers h on h.handler = w.handler
	left join lateral (
		select d.hash
		from {schema}.parked_tasks p,
			lateral (select k.definition from {schema}.workflow_runs k where k.id = p.run_id offset 0) r,
			lateral (select k.hash from {schema}.workflow_definitions k where k.definition = r.definition offset 0) d
		where p.handler = w.handler
		order by p.fair_id, p.run_id
		limit 1
	) f on true
	join lateral (
		select count(*)::int as count from (select from {schema}.parked_tasks p where p.handler = w.handler limit @most::int) k
	) c on true
where w.handler not in (select handler from registered)
order by h.workflow, h.step, h.fingerprint
limit @limit::int
