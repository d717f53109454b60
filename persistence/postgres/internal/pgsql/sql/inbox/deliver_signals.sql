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
{give}
select ln((
	(select count(*) from u where written) = (select count(*) from d)
	and (select count(*) from kept) + (select count(*) from given) = (select count(*) from d where step >= 0)
)::int)
