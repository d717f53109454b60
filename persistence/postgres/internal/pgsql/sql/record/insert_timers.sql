-- insert_timers: sets timers, all of them, or fails; one of the same name is replaced.
-- Caller: the slow path and the intake, under the locks of their runs.
-- Index: durable_timers_pkey.
with d as materialized (
	select *
	from unnest(@runs::uuid[], @steps::int[], @kinds::smallint[], @wakes::timestamptz[], @epochs::bigint[])
		as d (run_id, step, kind, wake_at, epoch)
),
u as (
	insert into {schema}.durable_timers as t (run_id, step, kind, wake_at, epoch) select d.* from d
	on conflict (run_id, step, kind, key) do update set wake_at = excluded.wake_at, epoch = excluded.epoch
	returning run_id, step, kind, wake_at, epoch
)
select ln(((select count(*) from u join d using (run_id, step, kind, wake_at, epoch)) = (select count(*) from d))::int)
