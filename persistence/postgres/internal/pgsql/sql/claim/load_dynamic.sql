-- load_dynamic: which step dynamic tasks execute, and their names; of an element of a map
-- (trait 1024) the item that it is for, which its name ends with; of what a machine has started
-- (4096) its input, which is kept as the item of the task's own number.
-- Caller: whatever grants tasks, if there are such. Locks nothing. Index: tasks_pkey and
-- map_items_pkey, probed per task.
select t.run_id, t.step, t.declared, t.name, i.payload
from unnest(@runs::uuid[], @steps::int[]) as d (run_id, step),
	lateral (select * from {schema}.tasks k where k.run_id = d.run_id and k.step = d.step and k.declared is not null offset 0) t
	left join lateral (
		select k.payload
		from {schema}.map_items k
		where t.traits & 5120 > 0 and k.run_id = t.run_id and k.step = t.owner
			and k.item = case when t.traits & 1024 > 0 then substring(t.name from '\[([0-9]+)\]$')::int else t.step end
		offset 0
	) i on true
