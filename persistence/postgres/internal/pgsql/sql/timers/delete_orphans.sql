-- delete_orphans: removes due timers of runs that are not there: their rows were deleted
-- by hand. Timers of kinds that the caller does not know stay: they may have no run.
-- Returns how many.
-- Caller: FireTimers, behind the fence. Locks durable_timers, skip locked.
-- Index: durable_timers_by_wake_at, up to the present; workflow_runs_pkey, probed per
-- timer.
with old as materialized (
	select k.ctid as tid, k.run_id, k.kind
	from {schema}.durable_timers k
	where k.wake_at >= coalesce(@from::timestamptz, '-infinity') and k.wake_at <= (select clock_timestamp()) and not k.run_id = any(@skip::uuid[])
	order by k.wake_at
	limit @walk::int
),
missing as materialized (
	select o.tid, o.run_id
	from old o
	where o.kind = any(@kinds::smallint[]) and not exists (select from {schema}.workflow_runs r where r.id = o.run_id offset 0)
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
	returning 1
)
select count(*)::int from gone
having ln((count(*) = (select count(*) from mine))::int) is not null
