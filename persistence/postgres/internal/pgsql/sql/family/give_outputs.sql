-- give_outputs: gives steps the outputs of their child runs: as their outputs, or where a pod has
-- to complete the step, as its output to be. Writes all of them, or fails. One statement, so that
-- it misses no child run that moves into history meanwhile.
-- Caller: the slow path, under the locks of the runs of the steps, once it has written the tasks.
-- Locks no child run. Index: tasks_pkey, workflow_runs_pkey, task_progress_pkey, probed per step;
-- those of spans of run_history for child runs that are not in workflow_runs.
with d as materialized (
	select d.run_id, d.step, d.done, k.child
	from unnest(@runs::uuid[], @steps::int[], @done::bool[]) as d (run_id, step, done),
		lateral (select k.child from {schema}.tasks k where k.run_id = d.run_id and k.step = d.step offset 0) k
),
live as materialized (
	select d.*, k.definition
	from d, lateral (select k.definition from {schema}.workflow_runs k where k.id = d.child offset 0) k
),
old as materialized (
	select h.* from {schema}.history_of(nullif(array(select d.child from d except select l.child from live l), '{}')) h
),
u as materialized (
	select l.run_id, l.step, l.done, t.output as payload
	from live l,
		lateral (select w.output from {schema}.workflow_definitions w where w.definition = l.definition offset 0) w,
		lateral (select k.output from {schema}.tasks k where k.run_id = l.child and k.step = w.output and k.state = 10 offset 0) t
	union all
	select d.run_id, d.step, d.done, h.outputs[w.output - h.first + 1]
	from old h join d on d.child = h.id,
		lateral (select k.output from {schema}.workflow_definitions k where k.definition = h.definition offset 0) w
	where h.states[w.output - h.first + 1] = 10
),
{give}
select ln(((select count(*) from kept) + (select count(*) from given) = (select count(*) from d))::int)
