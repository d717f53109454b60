-- list_keyed_runs: the runs of a tenant that have a key: one for each workflow at most.
-- Caller: ListRuns. Locks nothing. Index: run_keys_pkey, probed per workflow.
select k.run_id
from (select distinct w.name from {schema}.workflow_definitions w where @workflow::text is null or w.name = @workflow::text) w,
	lateral (
		select k.run_id from {schema}.run_keys k where k.tenant = @tenant::text and k.workflow = w.name and k.key = @key::text offset 0
	) k
