-- park_timers: takes the timers of runs that are not there out of the way, of those
-- that have been due for longest from an instant on. Their runs may be put back:
-- sweep_timers. Timers of kinds that the caller does not know stay: they may have no run.
-- Caller: FireTimers, behind the fence. Locks durable_timers, skip locked.
-- Index: durable_timers_by_wake_at, up to the present; workflow_runs_pkey,
-- probed per timer.
with old as materialized (
	select k.ctid as tid, k.run_id, k.kind
	from {schema}.durable_timers k
	where k.wake_at >= coalesce(@from::timestamptz, '-infinity') and k.wake_at <= (select clock_timestamp()) and not k.run_id = any(@skip::uuid[])
	order by k.wake_at
	limit @limit::int
),
missing as materialized (
	select o.tid, o.run_id from old o where o.kind = any(@kinds::smallint[]) and not exists (select from {schema}.workflow_runs r where r.id = o.run_id offset 0)
),
mine as materialized (
	select m.tid, m.run_id
	from missing m,
		lateral (select from {schema}.durable_timers k where k.ctid = m.tid and k.run_id = m.run_id offset 0 for update skip locked) k
),
gone as (
	delete from {schema}.durable_timers t
	using mine m
	where t.ctid = m.tid and t.run_id is not distinct from m.run_id
	returning t.run_id, t.step, t.kind, t.key, t.wake_at, t.epoch
),
written as (
	insert into {schema}.parked_timers as p (run_id, step, kind, key, wake_at, epoch, since)
	select g.run_id, g.step, g.kind, g.key, g.wake_at, g.epoch, clock_timestamp() from gone g
	on conflict (run_id, step, kind, key) do update set wake_at = excluded.wake_at, epoch = excluded.epoch, since = excluded.since
	returning 1
)
select from written
where (
	select ln(((select count(*) from gone) = (select count(*) from mine) and (select count(*) from written) = (select count(*) from gone))::int)
) is not null
