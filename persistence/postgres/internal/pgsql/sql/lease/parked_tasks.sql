-- parked_tasks: parked rows that a pod can take again, the oldest places first,
-- with whether their place is still to be served, and free: it may have been given
-- again if the counters were removed by hand.
-- Caller: ParkTasks, behind the fence. Locks parked_tasks, waits for nothing.
-- Index: parked_tasks_by_handler, one range per handler; ready_queue_pkey, probed
-- per place.
with registered as materialized (
	select distinct h as handler from {schema}.pods p, unnest(p.handlers) as h where not p.dead
)
select k.run_id, k.step, k.queue, k.handler, k.fair_id, k.suspect, coalesce(k.fair_id / 2097152 > f.block, false) and t.taken is null
from registered r,
	lateral (
		select * from {schema}.parked_tasks p where p.handler = r.handler order by p.fair_id limit @limit::int for update skip locked
	) k
	left join lateral (select b.block from {schema}.frontiers b where b.queue = k.queue and b.band = 0 offset 0) f on true
	left join lateral (
		select true as taken from {schema}.ready_queue q where q.queue = k.queue and q.band = 0 and q.fair_id = k.fair_id offset 0
	) t on true
order by k.queue, k.fair_id
limit @limit::int
