-- barred_places: the places among some whose tasks somebody else holds; what another
-- claim has locked is none of them.
-- Caller: claims around what somebody holds, which may go on to look for more. Locks
-- ready_queue, then the other tasks, and waits for nothing.
-- Index: ready_queue_pkey and the primary key of tasks, probed per place.
with asked as materialized (
	select q.fair_id, q.run_id, q.step
	from unnest(@places::bigint[]) p (place),
		lateral (
			select k.fair_id, k.run_id, k.step from {schema}.ready_queue k
			where k.queue = @queue::smallint and k.band = 0 and k.fair_id = p.place offset 0 for update skip locked
		) q
),
free as materialized (
	select a.fair_id
	from asked a,
		lateral (
			select from {schema}.tasks k where k.run_id = a.run_id and k.step = a.step offset 0 for no key update skip locked
		) t
)
select a.fair_id
from asked a,
	lateral (select from {schema}.tasks k where k.run_id = a.run_id and k.step = a.step offset 0) t
where a.fair_id not in (select f.fair_id from free f)
