-- find_held_tasks: the runs of some tasks of which, or of whose children, timers or
-- progress, somebody else holds a row, and a transaction that does.
-- Caller: whoever writes runs, in a strict look or to be sure of known_held, and
-- leaders, behind a savepoint that is rolled back. Locks what it finds free until
-- then, waits for nothing. Index: the primary keys, probed per task.
with {needed}
select h.run_id, max(h.holder)
from (
	select z.run_id, max(z.holder) as holder
	from (
		select n.run_id, n.step, 1 as part, 0 as kind, k.holder, false as free
		from needed n,
			lateral (
				select k.xmax::text::bigint as holder from {schema}.tasks k
				where k.run_id = n.run_id and k.step = n.step offset 0
			) k
		union all
		select n.run_id, n.step, 1, 0, 0, true
		from needed n,
			lateral (
				select from {schema}.tasks k
				where k.run_id = n.run_id and k.step = n.step offset 0 for no key update skip locked
			) k
		union all
		select n.run_id, n.step, 2 as part, k.kind as kind, k.holder, false as free
		from needed n,
			lateral (
				select k.kind, k.xmax::text::bigint as holder from {schema}.durable_timers k
				where k.run_id = n.run_id and k.step = n.step offset 0
			) k
		union all
		select n.run_id, n.step, 2, k.kind, 0, true
		from needed n,
			lateral (
				select k.kind from {schema}.durable_timers k
				where k.run_id = n.run_id and k.step = n.step offset 0 for update skip locked
			) k
		union all
		select n.run_id, n.step, 3 as part, 0 as kind, k.holder, false as free
		from needed n,
			lateral (
				select k.xmax::text::bigint as holder from {schema}.task_progress k
				where k.run_id = n.run_id and k.step = n.step offset 0
			) k
		union all
		select n.run_id, n.step, 3, 0, 0, true
		from needed n,
			lateral (
				select from {schema}.task_progress k
				where k.run_id = n.run_id and k.step = n.step offset 0 for no key update skip locked
			) k
		union all
		select n.run_id, n.step, 4 as part, 0 as kind, k.holder, false as free
		from needed n,
			lateral (
				select k.xmax::text::bigint as holder from {schema}.parked_tasks k
				where k.run_id = n.run_id and k.step = n.step offset 0
			) k
		union all
		select n.run_id, n.step, 4, 0, 0, true
		from needed n,
			lateral (
				select from {schema}.parked_tasks k
				where k.run_id = n.run_id and k.step = n.step offset 0 for update skip locked
			) k
	) z
	group by z.run_id, z.step, z.part, z.kind
	having not bool_or(z.free)
) h
group by h.run_id
