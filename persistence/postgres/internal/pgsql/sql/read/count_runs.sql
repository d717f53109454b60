-- count_runs: how many runs there are, by state and whatever is asked for. Of runs that have
-- not ended at most so many of each state are read. A row of state 0 says that history may have
-- more runs that have ended: some of it is not counted yet.
-- Caller: CountRuns, which has it planned for its arguments. Locks nothing. Index:
-- run_counts_pkey or run_counts_hourly_pkey, one range of a tenant or of all, or all rows of
-- these tables if tenants are told apart; all rows of workflow_runs, or those of a tenant by workflow_runs_by_tenant.
with d as materialized (
	select array(select w.definition from {schema}.workflow_definitions w where w.name = @workflow::text) as list
),
h as materialized (
	select a.hours_from, not exists (
		select from {schema}.spans s where s.class is not null and s.counted_to is distinct from 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid
	) as exact
	from {schema}.archived_up_to a
),
counts as (
	select c.day as hour, interval '1 day' as width, c.tenant, c.definition, c.state, c.runs
	from {schema}.run_counts c
	where @ended::bool and (not @timed::bool or c.day < (select h.hours_from from h))
		and (c.tenant = coalesce(@tenant::text, '') or @tenant::text is null and @by_tenant::bool) and (not @by_tenant::bool or c.tenant <> '')
	union all
	select c.hour, interval '1 hour', c.tenant, c.definition, c.state, c.runs
	from {schema}.run_counts_hourly c
	where @ended::bool and @timed::bool and c.hour >= (select h.hours_from from h)
		and (c.tenant = coalesce(@tenant::text, '') or @tenant::text is null and @by_tenant::bool) and (not @by_tenant::bool or c.tenant <> '')
	union all
	select case when c.hour >= h.hours_from then c.hour else date_trunc('day', c.hour, 'UTC') end,
		case when c.hour >= h.hours_from then interval '1 hour' else interval '1 day' end, c.tenant, c.definition, c.state, c.runs
	from h, (
		select c.hour, c.tenant, c.definition, c.state, c.runs from {schema}.run_count_deltas c
		union all
		select date_trunc('hour', r.finished_at, 'UTC'), r.tenant, r.definition, r.state, 1 from {schema}.workflow_runs r where r.state >= 10
	) c
	where @ended::bool and (@tenant::text is null or c.tenant = @tenant::text)
),
ended as (
	select c.state, case when @by_workflow::bool then c.definition end as definition, case when @by_tenant::bool then c.tenant end as tenant,
		case when @by_hour::bool then c.hour end as hour, case when @by_hour::bool then c.width end as width, sum(c.runs) as runs
	from counts c
	where (cardinality(@states::smallint[]) = 0 or c.state = any(@states::smallint[]))
		and (@workflow::text is null or c.definition = any((select d.list from d)::int[]))
		and (@since::timestamptz is null or c.hour + c.width > @since::timestamptz)
		and (@until::timestamptz is null or c.hour < @until::timestamptz)
	group by 1, 2, 3, 4, 5
),
open as (
	select s.state, case when @by_workflow::bool then r.definition end as definition, case when @by_tenant::bool then r.tenant end as tenant, count(*) as runs
	from unnest(@open_states::smallint[]) s (state), lateral (
		select r.definition, r.tenant
		from {schema}.workflow_runs r
		where r.state = s.state and (@tenant::text is null or r.tenant = @tenant::text)
			and (@workflow::text is null or r.definition = any((select d.list from d)::int[]))
		limit @most::int + 1
	) r
	group by 1, 2, 3
)
select u.state, case when @by_workflow::bool then w.name end, u.tenant, u.hour, u.width, sum(u.runs)::bigint
from (
	select e.state, e.definition, e.tenant, e.hour, e.width, e.runs from ended e
	union all
	select o.state, o.definition, o.tenant, null, null, o.runs from open o
	union all
	select 0::smallint, null, null, null, null, 0 from h where @ended::bool and not h.exact
) u left join {schema}.workflow_definitions w on w.definition = u.definition
group by 1, 2, 3, 4, 5
order by u.hour, u.tenant, 2, u.state
