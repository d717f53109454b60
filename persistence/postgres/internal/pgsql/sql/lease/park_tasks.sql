-- park_tasks: moves queue rows that no pod can take out of the way, and removes
-- those whose task is no longer queued: no claim would. What is locked is
-- left for the next time.
-- Caller: ParkTasks, behind the fence. Locks ready_queue, then tasks, skip
-- locked: it waits for nothing. Index: ready_queue_pkey, one walk per queue;
-- the handlers are a subplan, which is hashed: there may be many of both.
with registered as materialized (
	select distinct h.handler from {schema}.pods p, unnest(p.handlers) as h (handler) where not p.dead
),
q as materialized (
	select q.ctid as tid, q.queue, q.band, q.fair_id, q.run_id, q.step, q.handler, q.suspect
	from {schema}.ready_queue q
	where q.handler not in (select handler from registered)
	order by q.queue, q.band, q.fair_id
	limit @limit::int
	for update of q skip locked
),
t as materialized (
	select q.*, coalesce(k.state, 13) as state
	from q
		left join lateral (
			select k.state from {schema}.tasks k where k.run_id = q.run_id and k.step = q.step offset 0 for no key update skip locked
		) k on true
	where k.state is not null
		or (select count(*) from (select from {schema}.tasks k where k.run_id = q.run_id and k.step = q.step offset 0) k) = 0
),
gone as (
	delete from {schema}.ready_queue r
	using t
	where r.ctid = t.tid and r.queue is not distinct from t.queue and r.band is not distinct from t.band
		and r.fair_id is not distinct from t.fair_id
	returning t.run_id, t.step, t.queue, t.band, t.handler, t.fair_id, t.suspect, t.state
),
parked as (
	insert into {schema}.parked_tasks (run_id, step, queue, band, handler, fair_id, suspect)
	select run_id, step, queue, band, handler, fair_id, suspect from gone where state = 2
	returning 1
)
select count(*)::int from parked
having ln((
	(select count(*) from gone) = (select count(*) from t) and count(*) = (select count(*) from gone where state = 2)
)::int) is not null
