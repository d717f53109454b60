-- take_intake: the oldest runs that wait to be expanded. What another pod has
-- taken is passed over.
-- skip, foreign: tenants and definitions whose runs are left there.
-- Caller: DrainIntake. Locks intake by id, waits for nothing. Index: intake_pkey;
-- workflow_runs_pkey, probed per run if any are skipped.
select i.id, i.run_id, i.at, i.edges, i.kept
from {schema}.intake i
where i.signal is null and (
	cardinality(@skip::text[]) + cardinality(@foreign::int[]) = 0
	or not exists (
		select from {schema}.workflow_runs k
		where k.id = i.run_id and (k.tenant = any(@skip::text[]) or k.definition = any(@foreign::int[]))
	)
)
order by i.id limit @limit::int for update skip locked
