-- load_dynamic: which step dynamic tasks execute, and their names.
-- Caller: whatever grants tasks, if there are such. Locks nothing. Index: tasks_pkey, probed
-- per task.
select t.run_id, t.step, t.declared, t.name
from unnest(@runs::uuid[], @steps::int[]) as d (run_id, step),
	lateral (select * from {schema}.tasks k where k.run_id = d.run_id and k.step = d.step and k.declared is not null offset 0) t
