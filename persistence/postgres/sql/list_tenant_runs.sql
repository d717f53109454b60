-- list_tenant_runs: a page of the runs of one tenant, newest first.
-- Caller: ListRuns. Index: workflow_runs_by_tenant and that of each span of
-- run_history, backwards, merged.
select r.id
from {schema}.every_run r
where r.tenant = @tenant::text and uuid_send(r.id) < uuid_send(@before::uuid)
	and (cardinality(@states::smallint[]) = 0 or r.state = any(@states::smallint[]))
	and (@labels::text is null or r.labels @> @labels::jsonb)
	and (
		@workflow::text is null
		or r.definition in (select w.definition from {schema}.workflow_definitions w where w.name = @workflow::text)
	)
order by r.tenant desc, uuid_send(r.id) desc
limit @limit::int
