-- tell_family: asks the pods to tell runs that child runs of theirs have ended (step -1), and the
-- child runs of steps, if they go on, that the step was canceled. Returns how many it asked for.
-- Caller: the slow path, under the locks of the runs that have ended and of those of the steps.
-- Index: tasks_pkey, workflow_runs_pkey, probed per step.
with d as materialized (
	select * from unnest(@runs::uuid[], @steps::int[]) with ordinality as d (run_id, step, ord)
),
told as materialized (
	select d.run_id, d.ord from d where d.step = -1
	union all
	select k.child, d.ord
	from d, lateral (select k.child from {schema}.tasks k where k.run_id = d.run_id and k.step = d.step offset 0) k
	where (select r.state < 10 from {schema}.workflow_runs r where r.id = k.child)
),
asked as (
	insert into {schema}.intake (run_id, signal) select t.run_id, true from told t order by t.ord
	returning 1
)
select count(*)::int from asked
having ln((count(*) = (select count(*) from told))::int) is not null
