-- delete_span: forgets a span whose table is dropped, and the counts of its runs. Caller: the
-- leader, behind the fence. Index: spans_pkey, run_counts_by_span; all of
-- run_counts_hourly.
with written as (
	delete from {schema}.spans s where s.span = @span returning s.span, s.since, s.until
),
days as (
	delete from {schema}.run_counts c using written w where c.span = w.span
),
hours as (
	delete from {schema}.run_counts_hourly c
	using written w
	where c.hour >= date_trunc('hour', w.since, 'UTC') and c.hour < w.until and c.span = w.span
),
deltas as (
	delete from {schema}.run_count_deltas d using written w where d.span = w.span
)
{none}
