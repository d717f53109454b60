-- load_family: what runs have not heard of other runs: the steps that wait for a child run which
-- has ended or is gone, with that run; and -1, if the step that began the run itself does not wait.
-- Caller: DrainIntake, under the locks of the runs. Locks nothing, above all none of those other
-- runs. Index: tasks_with_child, one range per run; workflow_runs_pkey and tasks_pkey, probed per
-- child run.
select d.run_id, k.step, k.child
from unnest(@runs::uuid[]) as d (run_id),
	lateral (select * from {schema}.tasks k where k.run_id = d.run_id and k.child is not null and k.state = 6 offset 0) k
where (select r.state < 10 from {schema}.workflow_runs r where r.id = k.child) is not true
union all
select d.run_id, -1, null
from unnest(@children::uuid[], @parents::uuid[], @steps::int[]) as d (run_id, parent, step)
where (select k.state = 6 from {schema}.tasks k where k.run_id = d.parent and k.step = d.step) is not true
order by 1, 2
limit @most::int
