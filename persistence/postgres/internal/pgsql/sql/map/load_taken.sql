-- load_taken: the names of the elements of maps that an earlier run has completed: flag 16 is
-- FlagKept, trait 1024 that of maps and their elements.
-- Caller: the slow path, for maps that begin in runs which continue others. Locks nothing.
-- Index: tasks_pkey, one range per map.
select d.run_id, d.step, t.name
from unnest(@runs::uuid[], @steps::int[]) as d (run_id, step),
	lateral (
		select k.name from {schema}.tasks k
		where k.run_id = d.run_id and k.step > d.step and k.owner = d.step and k.traits & 1024 > 0 and k.flags & 16 > 0 offset 0
	) t
