-- find_run: whether a run of a tenant exists. Caller: CancelRun.
-- Index: workflow_runs_pkey.
select exists (select from {schema}.workflow_runs r where r.id = @run and (@tenant::text = '' or r.tenant = @tenant::text))
