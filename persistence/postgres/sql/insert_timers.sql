-- insert_timers: sets timers, all of them, or fails; one of the same name is replaced.
-- Caller: the slow path and the intake, under the locks of their runs.
-- Index: durable_timers_pkey.
with u as (
	insert into {schema}.durable_timers as t (run_id, step, kind, wake_at, epoch)
	select d.run_id, d.step, d.kind, d.wake_at, d.epoch
	from unnest(@runs::uuid[], @steps::int[], @kinds::smallint[], @wakes::timestamptz[], @epochs::bigint[])
		as d (run_id, step, kind, wake_at, epoch)
	on conflict (run_id, step, kind, key) do update set wake_at = excluded.wake_at, epoch = excluded.epoch
	returning 1
)
select ln((count(*) = cardinality(@runs::uuid[]))::int) from u
