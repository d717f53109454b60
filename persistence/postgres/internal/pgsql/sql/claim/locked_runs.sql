-- locked_runs: the runs of some tasks that are there, with their tenants, and whether
-- another session has locked a row of the run, of one of these tasks or its children, or
-- of their timers, progress and parked rows: more are there than can be locked.
-- Caller: every writer of runs, once a lock was not granted in time, behind a savepoint
-- that is rolled back. Locks what it finds free until then, waits for nothing.
-- Index: the primary keys, probed per task.
with {needed},
asked as materialized (
	select k.id, k.group_id
	from (select distinct run_id from wanted) w,
		lateral (select k.id, k.group_id from {schema}.workflow_runs k where k.id = w.run_id offset 0) k
)
select a.id, coalesce(a.group_id, 0), coalesce(z.locked, false)
from asked a
	left join (
		select z.run_id, sum(z.n) > 0 as locked
		from (
			select a.id as run_id, 1 as n from asked a
			union all
			select a.id, -1 from asked a,
				lateral (select from {schema}.workflow_runs k where k.id = a.id offset 0 for no key update skip locked) k
			union all
			select n.run_id, 1 from needed n,
				lateral (select from {schema}.tasks k where k.run_id = n.run_id and k.step = n.step offset 0) k
			union all
			select n.run_id, -1 from needed n,
				lateral (select from {schema}.tasks k where k.run_id = n.run_id and k.step = n.step offset 0 for no key update skip locked) k
			union all
			select n.run_id, 1 from needed n,
				lateral (select from {schema}.durable_timers k where k.run_id = n.run_id and k.step = n.step offset 0) k
			union all
			select n.run_id, -1 from needed n,
				lateral (select from {schema}.durable_timers k where k.run_id = n.run_id and k.step = n.step offset 0 for update skip locked) k
			union all
			select n.run_id, 1 from needed n,
				lateral (select from {schema}.task_progress k where k.run_id = n.run_id and k.step = n.step offset 0) k
			union all
			select n.run_id, -1 from needed n,
				lateral (select from {schema}.task_progress k where k.run_id = n.run_id and k.step = n.step offset 0 for no key update skip locked) k
			union all
			select n.run_id, 1 from needed n,
				lateral (select from {schema}.parked_tasks k where k.run_id = n.run_id and k.step = n.step offset 0) k
			union all
			select n.run_id, -1 from needed n,
				lateral (select from {schema}.parked_tasks k where k.run_id = n.run_id and k.step = n.step offset 0 for update skip locked) k
		) z
		group by z.run_id
	) z on z.run_id = a.id
