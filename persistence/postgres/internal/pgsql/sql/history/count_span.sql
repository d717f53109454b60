-- count_span: counts the next runs of a span, and says how many those were: fewer than the
-- limit if it has come to the end.
-- Caller: DropHistory, behind the fence, after begin_count. Index: that of the span on
-- (id, slice), one range; the primary keys of the counts, probed per group.
with runs as materialized (
	select h.id, h.finished_at, h.tenant, h.definition, h.state
	from {schema}.run_history h
	where h.class = @class::smallint and h.finished_at >= @since and h.finished_at < @until and h.id > @after::uuid and h.slice = 0
	order by h.id
	limit @limit::int
),
g as materialized (
	select r.tenant, date_trunc('hour', r.finished_at, 'UTC') as hour, r.definition, r.state, count(*) as runs from runs r group by 1, 2, 3, 4
),
days as (
	insert into {schema}.run_counts as c (tenant, day, definition, state, span, runs)
	select a.tenant, date_trunc('day', g.hour, 'UTC'), g.definition, g.state, @span::int, sum(g.runs)
	from g, lateral (values (g.tenant), ('')) a (tenant)
	group by 1, 2, 3, 4
	on conflict (tenant, day, definition, state, span) do update set runs = c.runs + excluded.runs
),
hours as (
	insert into {schema}.run_counts_hourly as c (tenant, hour, definition, state, span, runs)
	select a.tenant, g.hour, g.definition, g.state, @span::int, sum(g.runs)
	from g, lateral (values (g.tenant), ('')) a (tenant)
	where g.hour >= (select u.hours_from from {schema}.archived_up_to u)
	group by 1, 2, 3, 4
	on conflict (tenant, hour, definition, state, span) do update set runs = c.runs + excluded.runs
),
marked as (
	update {schema}.spans s
	set counted_to = case when (select count(*) from runs) < @limit::int then 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid
		else (select r.id from runs r order by r.id desc limit 1) end
	where s.span = @span::int
)
select count(*)::int from runs
