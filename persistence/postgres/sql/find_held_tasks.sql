-- find_held_tasks: the runs of some tasks of which, or of whose children or timers,
-- somebody else holds a row, and a transaction that does.
-- Caller: whoever writes runs, in a strict look or to be sure of known_held, and
-- leaders, behind a savepoint that is rolled back. Locks tasks and durable_timers until
-- then, waits for nothing. Index: the primary keys, probed per task.
with {needed},
tasks as materialized (
	select n.run_id, n.step, k.holder
	from needed n,
		lateral (
			select k.xmax::text::bigint as holder from {schema}.tasks k where k.run_id = n.run_id and k.step = n.step offset 0
		) k
),
free as materialized (
	select n.run_id, n.step
	from needed n,
		lateral (
			select from {schema}.tasks k
			where k.run_id = n.run_id and k.step = n.step offset 0 for no key update skip locked
		) k
),
timers as materialized (
	select n.run_id, n.step, k.kind, k.holder
	from needed n,
		lateral (
			select k.kind, k.xmax::text::bigint as holder from {schema}.durable_timers k
			where k.run_id = n.run_id and k.step = n.step offset 0
		) k
),
quiet as materialized (
	select n.run_id, n.step, k.kind
	from needed n,
		lateral (
			select k.kind from {schema}.durable_timers k
			where k.run_id = n.run_id and k.step = n.step offset 0 for update skip locked
		) k
)
select h.run_id, max(h.holder)
from (
	select t.run_id, t.holder from tasks t where (t.run_id, t.step) not in (select f.run_id, f.step from free f)
	union all
	select t.run_id, t.holder from timers t where (t.run_id, t.step, t.kind) not in (select q.run_id, q.step, q.kind from quiet q)
) h
group by h.run_id
