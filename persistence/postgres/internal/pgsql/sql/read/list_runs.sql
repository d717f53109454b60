-- list_runs: a piece of the runs of all tenants, newest first: those of which a filter holds
-- among the next rows, and the id down to which runs were searched; null: there are none below.
-- Caller: ListRuns, until the page is full or its time is over. Locks nothing. Index:
-- workflow_runs_pkey and those of the spans of run_history that may have runs of the piece,
-- backwards.
with live as materialized (
	select z.id
	from (
		select * from {schema}.workflow_runs r where r.id < @before::uuid and r.id >= @from::uuid order by r.id desc limit @piece::int
	) z
	where {list_filter}
	limit @limit::int
),
low as materialized (
	select case
		when (select count(*) from live) = @limit::int then (select l.id from live l order by l.id limit 1)
		else (
			select r.id from {schema}.workflow_runs r
			where r.id < @before::uuid and r.id >= @from::uuid order by r.id desc offset @piece::int - 1 limit 1
		)
	end as id
),
{list_old}
