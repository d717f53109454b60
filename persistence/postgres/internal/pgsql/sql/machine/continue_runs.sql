-- continue_runs: runs of machines that continue with another definition, and what their machines
-- execute from now on. Writes all of them, or fails.
-- Caller: the slow path, under the locks of the runs and of the machines. Index: workflow_runs_pkey
-- and tasks_pkey, probed per run.
with d as materialized (
	select d.*, r.tid as run, t.tid as task
	from unnest(@runs::uuid[], @definitions::int[], @handlers::int[], @queues::smallint[]) as d (run_id, definition, handler, queue),
		lateral (select k.ctid as tid from {schema}.workflow_runs k where k.id = d.run_id offset 0) r,
		lateral (select k.ctid as tid from {schema}.tasks k where k.run_id = d.run_id and k.step = 0 offset 0) t
),
runs as (
	update {schema}.workflow_runs r set definition = d.definition from d
	where r.ctid = d.run and r.id is not distinct from d.run_id
	returning r.definition = d.definition as written
),
tasks as (
	update {schema}.tasks t set handler = d.handler, queue = d.queue from d
	where t.ctid = d.task and t.run_id is not distinct from d.run_id and t.step is not distinct from 0
	returning t.handler = d.handler as written
)
select ln(((select count(*) from runs where written) + (select count(*) from tasks where written) = 2 * cardinality(@runs::uuid[]))::int)
