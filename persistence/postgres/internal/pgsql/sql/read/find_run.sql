-- find_run: whether a run of a tenant exists. Caller: CancelRun, Tasks, StepNames, Events.
-- Index: workflow_runs_pkey, or that of a span of run_history.
{live_or_old}
select exists (
	select from live r where @tenant::text = '' or r.tenant = @tenant::text
	union all
	select from old h where h.slice = 0 and (@tenant::text = '' or h.tenant = @tenant::text)
)
