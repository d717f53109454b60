-- delete_timers: the timers of the named steps, of one kind or (0) of all that the caller
-- knows. Timers of other kinds stay: a leader of a later version fires them, or they are
-- removed with their run.
-- Caller: the slow path, under the locks of their runs: nothing else touches
-- timers. Index: durable_timers_pkey, probed per step.
with asked as materialized (
	select * from unnest(@runs::uuid[], @steps::int[], @kinds::smallint[]) as d (run_id, step, kind)
),
d as materialized (
	select distinct x.tid, a.run_id, a.step
	from asked a,
		lateral (
			select k.ctid as tid from {schema}.durable_timers k
			where k.run_id = a.run_id and k.step = a.step and (a.kind = 0 and k.kind = any(@known::smallint[]) or k.kind = a.kind) offset 0
		) x
),
u as (
	delete from {schema}.durable_timers t
	using d
	where t.ctid = d.tid and t.run_id is not distinct from d.run_id and t.step is not distinct from d.step
	returning true as written
)
{all_written}
