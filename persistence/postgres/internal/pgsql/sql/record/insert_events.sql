-- insert_events: one row per transition.
-- Caller: everything that decides in Go.
with written as (
	insert into {schema}.task_events (run_id, step, n, kind, at, pod, attempt, delay, wake_at, "by", class, text)
	select d.run_id, d.step, d.n, d.kind, @now::timestamptz, nullif(d.pod, 0), nullif(d.attempt, 0), nullif(d.delay, 0), d.wake_at,
		nullif(d.by, ''), nullif(d.class, ''), nullif(d.text, '')
	from unnest(@runs::uuid[], @steps::int[], @ns::bigint[], @kinds::smallint[], @pods::bigint[], @attempts::int[], @delays::bigint[],
		@wakes::timestamptz[], @bys::text[], @classes::text[], @texts::text[])
		as d (run_id, step, n, kind, pod, attempt, delay, wake_at, by, class, text)
)
{none}
