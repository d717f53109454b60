-- list_tenant_runs: a page of the runs of one tenant, newest first.
-- Caller: ListRuns. Index: workflow_runs_by_tenant and those of the spans of
-- run_history that may have runs of the page, backwards.
with live as materialized (
	select r.id
	from {schema}.workflow_runs r
	where r.tenant = @tenant::text and uuid_send(r.id) < uuid_send(@before::uuid)
		and (cardinality(@states::smallint[]) = 0 or r.state = any(@states::smallint[]))
		and (@labels::text is null or r.labels @> (select @labels::jsonb)) -- one cast, not one a row
		and (
			@workflow::text is null
			or r.definition in (select w.definition from {schema}.workflow_definitions w where w.name = @workflow::text)
		)
	order by r.tenant desc, uuid_send(r.id) desc
	limit @limit::int
)
select u.id
from (
	select l.id from live l
	union all
	select h.id
	from {schema}.history_page(@tenant::text, @before::uuid, (select l.id from live l order by l.id desc offset @limit::int - 1 limit 1),
		@states::smallint[], @labels::jsonb, @workflow::text, @limit::int) as h (id)
) u
order by u.id desc
limit @limit::int
