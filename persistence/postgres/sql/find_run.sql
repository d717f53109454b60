-- find_run: whether a run of a tenant exists. Caller: CancelRun.
-- Index: workflow_runs_pkey, and that of each span of run_history.
select exists (select from {schema}.every_run r where r.id = @run and (@tenant::text = '' or r.tenant = @tenant::text))
