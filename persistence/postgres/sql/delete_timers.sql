-- delete_timers: the timers of the named steps, of one kind or (0) of all.
-- Caller: the slow path, under the locks of their runs: nothing else touches
-- timers. Index: durable_timers_pkey, probed per step.
with d as materialized (
	select * from unnest(@runs::uuid[], @steps::int[], @kinds::smallint[]) as d (run_id, step, kind)
),
written as (
	delete from {schema}.durable_timers t
	using (
		select x.tid, d.run_id, d.step
		from d,
			lateral (
				select k.ctid as tid from {schema}.durable_timers k
				where k.run_id = d.run_id and k.step = d.step and (d.kind = 0 or k.kind = d.kind) offset 0
			) x
	) d
	where t.ctid = d.tid and t.run_id is not distinct from d.run_id and t.step is not distinct from d.step
)
{none}
