-- load_tasks: the named tasks and their children; of an element of a map (trait 1024) and of
-- what a machine has started (4096), which have none, that map or machine.
-- Caller: the slow path, under the locks of their runs. Locks tasks by
-- (run, step); may wait for a claim, which waits for nothing and is short
-- unless it goes around what is locked.
-- Index: tasks_pkey, probed per task.
with named as materialized (
	select distinct z.run_id, z.step from unnest(@runs::uuid[], @steps::int[]) as z (run_id, step)
),
wanted as (
	select n.run_id, n.step from named n
	union
	select n.run_id, c >> 3
	from named n,
		lateral (
			select case when k.traits & 5120 > 0 and k.owner is not null then array[k.owner << 3] else k.children end as children
			from {schema}.tasks k where k.run_id = n.run_id and k.step = n.step offset 0
		) t,
		unnest(t.children) as c
	order by 1, 2
)
select t.run_id, t.step, t.state, t.traits, t.flags, t.pending, t.parents, t.children, t.epoch, t.attempt, t.lost, t.pod,
	t.sleep, t.start_timeout, t.wake_at, t.class, t.error, t.handler, t.queue, t.declared, t.owner, t.name, coalesce(t.entry, 0)
from wanted w,
	lateral (select * from {schema}.tasks k where k.run_id = w.run_id and k.step = w.step offset 0 for no key update) t
