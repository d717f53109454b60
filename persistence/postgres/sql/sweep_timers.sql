-- sweep_timers: looks at some parked timers, after those of the last look. Puts back
-- those whose runs are there again, and removes those that have been here for longer
-- than is given. Returns how many it looked at, how many it put back, and the last.
-- Caller: FireTimers, behind the fence. Locks parked_timers, skip locked, and
-- durable_timers.
-- Index: parked_timers_pkey; workflow_runs_pkey, probed per timer.
with clock as materialized (select clock_timestamp() as now),
piece as materialized (
	select p.*, exists (select from {schema}.workflow_runs r where r.id = p.run_id offset 0) as there
	from (
		select k.ctid as tid, k.run_id, k.step, k.kind, k.key, k.since
		from {schema}.parked_timers k
		where (k.run_id, k.step, k.kind, k.key) > (@run::uuid, @step::int, @kind::smallint, @key::text)
		order by k.run_id, k.step, k.kind, k.key
		limit @limit::int
	) p
),
mine as materialized (
	select p.tid, p.run_id, p.there
	from piece p, clock,
		lateral (select from {schema}.parked_timers k where k.ctid = p.tid and k.run_id = p.run_id offset 0 for update skip locked) k
	where p.there or p.since < clock.now - @kept::bigint * interval '1 microsecond'
),
taken as (
	delete from {schema}.parked_timers t
	using mine p
	where t.ctid = p.tid and t.run_id is not distinct from p.run_id
	returning t.run_id, t.step, t.kind, t.key, t.wake_at, t.epoch, p.there
),
back as (
	insert into {schema}.durable_timers as d (run_id, step, kind, key, wake_at, epoch)
	select t.run_id, t.step, t.kind, t.key, t.wake_at, t.epoch from taken t where t.there
	on conflict (run_id, step, kind, key) do nothing
	returning 1
)
select count(*)::int, (select count(*)::int from back), l.run_id, l.step, l.kind, l.key
from piece, (select p.run_id, p.step, p.kind, p.key from piece p order by p.run_id desc, p.step desc, p.kind desc, p.key desc limit 1) l
where (select ln(((select count(*) from taken) = (select count(*) from mine))::int)) is not null
group by l.run_id, l.step, l.kind, l.key
