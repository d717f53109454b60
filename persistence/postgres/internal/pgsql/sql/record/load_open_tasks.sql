-- load_open_tasks: every task of the runs that has not ended.
-- Caller: the slow path, under the locks of the runs. Locks tasks by
-- (run, step); may wait for a claim, which waits for nothing and is short
-- unless it goes around what is locked.
-- Index: tasks_pkey, one range per run.
select t.run_id, t.step, t.state, t.traits, t.flags, t.pending, t.parents, t.children, t.epoch, t.attempt, t.lost, t.pod,
	t.sleep, t.start_timeout, t.wake_at, t.class, t.error, t.handler, t.queue, t.declared, t.owner, t.name, coalesce(t.entry, 0)
from (select distinct id from unnest(@runs::uuid[]) as z (id) order by id) d,
	lateral (
		select * from {schema}.tasks k where k.run_id = d.id and k.state < 10 order by k.step offset 0 for no key update
	) t
