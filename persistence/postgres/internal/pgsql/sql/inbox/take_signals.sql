-- take_signals: the oldest requests to deliver the signals of a run, or of some requests those
-- that are there, and whether their runs are. What another pod has taken is passed over.
-- skip, foreign: runs and definitions whose requests are left there. ids: null for any.
-- Caller: DrainIntake. Locks intake by id, waits for nothing. Index: intake_signals, or
-- intake_pkey; workflow_runs_pkey, probed per request.
select i.id, i.run_id, exists (select from {schema}.workflow_runs k where k.id = i.run_id)
from {schema}.intake i
where i.signal and (@ids::bigint[] is null or i.id = any(@ids::bigint[])) and not i.run_id = any(@skip::uuid[])
	and (
		cardinality(@foreign::int[]) = 0
		or not exists (select from {schema}.workflow_runs k where k.id = i.run_id and k.definition = any(@foreign::int[]))
	)
order by i.id limit @limit::int for update skip locked
