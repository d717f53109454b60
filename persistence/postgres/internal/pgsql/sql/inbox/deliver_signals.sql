-- deliver_signals: numbers signals, and gives them to the steps that have taken them (-1: none),
-- as their outputs, or where a pod has to complete the step, as its output to be. Writes all of
-- them, or fails.
-- Caller: the slow path, under the locks of the runs, once it has written the tasks. Index:
-- inbox_pkey, probed per signal; tasks_pkey, probed per step; task_progress_pkey.
with d as materialized (
	select * from unnest(@runs::uuid[], @ids::text[], @ns::bigint[], @steps::int[], @done::bool[]) as d (run_id, id, n, step, done)
),
u as (
	update {schema}.inbox i
	set n = d.n, taken_by = nullif(d.step, -1)
	from (
		select d.*, x.tid
		from d, lateral (select k.ctid as tid from {schema}.inbox k where k.run_id = d.run_id and k.id = d.id offset 0) x
	) d
	where i.ctid = d.tid and i.run_id is not distinct from d.run_id and i.id is not distinct from d.id
	returning i.run_id, i.taken_by as step, i.payload, i.n = d.n as written, d.done
),
kept as (
	insert into {schema}.task_progress as p (run_id, step, progress)
	select u.run_id, u.step, u.payload from u where u.step is not null and not u.done order by 1, 2
	on conflict (run_id, step) do update set progress = excluded.progress
	returning 1
),
given as (
	update {schema}.tasks t
	set output = k.payload
	from (
		select u.run_id, u.step, u.payload, x.tid
		from u, lateral (select k.ctid as tid from {schema}.tasks k where k.run_id = u.run_id and k.step = u.step offset 0) x
		where u.done
	) k
	where t.ctid = k.tid and t.run_id is not distinct from k.run_id and t.step is not distinct from k.step and t.state = 10
	returning 1
)
select ln((
	(select count(*) from u where written) = (select count(*) from d)
	and (select count(*) from kept) + (select count(*) from given) = (select count(*) from d where step >= 0)
)::int)
