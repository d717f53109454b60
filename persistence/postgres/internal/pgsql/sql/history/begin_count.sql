-- begin_count: up to which run a span has been counted. A count that begins anew removes what
-- was counted before.
-- Caller: DropHistory, behind the fence. Locks the span, so that no run is moved into it
-- meanwhile. Index: spans_pkey, run_counts_by_span; all of
-- run_counts_hourly.
with k as materialized (
	select s.span, s.since, s.until, s.counted_to from {schema}.spans s where s.span = @span for update
),
days as (
	delete from {schema}.run_counts c using k where k.counted_to is null and c.span = k.span
),
hours as (
	delete from {schema}.run_counts_hourly c
	using k
	where k.counted_to is null and c.hour >= date_trunc('hour', k.since, 'UTC') and c.hour < k.until and c.span = k.span
),
deltas as (
	delete from {schema}.run_count_deltas d using k where k.counted_to is null and d.span = k.span
)
select coalesce(k.counted_to, '00000000-0000-0000-0000-000000000000'::uuid) from k
