-- list_tenant_runs: list_runs for the runs of one tenant.
-- Caller: ListRuns, until the page is full or its time is over. Locks nothing. Index:
-- workflow_runs_by_tenant and those of the spans of run_history that may have runs of the
-- piece, backwards.
with live as materialized (
	select z.id
	from (
		select * from {schema}.workflow_runs r
		where r.tenant = @tenant::text and uuid_send(r.id) < uuid_send(@before::uuid) and uuid_send(r.id) >= uuid_send(@from::uuid)
		order by r.tenant desc, uuid_send(r.id) desc
		limit @piece::int
	) z
	where {list_filter}
	limit @limit::int
),
low as materialized (
	select case
		when (select count(*) from live) = @limit::int then (select l.id from live l order by l.id limit 1)
		else (
			select r.id from {schema}.workflow_runs r
			where r.tenant = @tenant::text and uuid_send(r.id) < uuid_send(@before::uuid) and uuid_send(r.id) >= uuid_send(@from::uuid)
			order by r.tenant desc, uuid_send(r.id) desc
			offset @piece::int - 1
			limit 1
		)
	end as id
),
{list_old}
