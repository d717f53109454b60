-- list_runs: a page of the runs of all tenants, newest first.
-- Caller: ListRuns. Index: workflow_runs_pkey and that of each span of
-- run_history, backwards, merged.
select r.id
from {schema}.every_run r
where r.id < @before::uuid
	and (cardinality(@states::smallint[]) = 0 or r.state = any(@states::smallint[]))
	and (@labels::text is null or r.labels @> @labels::jsonb)
	and (
		@workflow::text is null
		or r.definition in (select w.definition from {schema}.workflow_definitions w where w.name = @workflow::text)
	)
order by r.id desc
limit @limit::int
