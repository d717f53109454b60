-- fold_counts: adds what was counted as runs were moved to the counts, and keeps those by the
-- hour from an instant on; null: from the one that there was. Returns how many rows it added.
-- Caller: ArchiveRuns and DropHistory, behind the fence: no other transaction writes to the
-- counts. Index: the primary keys, probed per group; once
-- a day all of run_counts_hourly.
with f as materialized (
	select coalesce(@hours_from::timestamptz, a.hours_from) as hours from {schema}.archived_up_to a
),
d as materialized (
	delete from {schema}.run_count_deltas d
	where d.ctid = any(array(select k.ctid from {schema}.run_count_deltas k limit @limit::int))
	returning d.*
),
days as (
	insert into {schema}.run_counts as c (tenant, day, definition, state, span, runs)
	select a.tenant, date_trunc('day', d.hour, 'UTC'), d.definition, d.state, d.span, sum(d.runs)
	from d, lateral (values (d.tenant), ('')) a (tenant)
	group by 1, 2, 3, 4, 5
	on conflict (tenant, day, definition, state, span) do update set runs = c.runs + excluded.runs
),
hours as (
	insert into {schema}.run_counts_hourly as c (tenant, hour, definition, state, span, runs)
	select a.tenant, d.hour, d.definition, d.state, d.span, sum(d.runs)
	from f, d, lateral (values (d.tenant), ('')) a (tenant)
	where d.hour >= f.hours
	group by 1, 2, 3, 4, 5
	on conflict (tenant, hour, definition, state, span) do update set runs = c.runs + excluded.runs
),
past as (
	delete from {schema}.run_counts_hourly c where c.hour < (select f.hours from f)
),
marked as (
	update {schema}.archived_up_to a set hours_from = f.hours from f where a.hours_from < f.hours
)
select count(*)::int from d
