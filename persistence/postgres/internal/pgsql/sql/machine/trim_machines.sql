-- trim_machines: removes what is no longer kept of machines: of tasks that they have started and whose
-- ends are entries up to the base, or are not heard of and that old, and of signals up to the base,
-- at most so many each. Their events are passed over from now on, and go with those of their time: see parts/event_gone. Removes all that it finds, or fails.
-- Caller: the slow path, under the locks of their runs, behind write_machines. Index:
-- machines_pkey, probed per run; tasks_with_entry and inbox_by_number, one range per run, no longer
-- than what it removes; the primary keys, probed per task.
with d as materialized (
	select d.run_id, d.most, m.base
	from unnest(@runs::uuid[], @most::int[]) as d (run_id, most),
		lateral (select k.base from {schema}.machines k where k.run_id = d.run_id and k.base > 0 offset 0) m
),
old as materialized (
	select x.*
	from d,
		lateral (
			select k.ctid as tid, k.run_id, k.step from {schema}.tasks k
			where k.run_id = d.run_id and k.entry >= -d.base and k.entry <= d.base and k.step > 0 order by k.entry, k.step limit d.most
		) x
),
heard as materialized (
	select x.*
	from d, lateral (select k.ctid as tid, k.run_id, k.n from {schema}.inbox k where k.run_id = d.run_id and k.n <= d.base order by k.n limit d.most) x
),
tasks as (
	delete from {schema}.tasks t
	using old o
	where t.ctid = o.tid and t.run_id is not distinct from o.run_id and t.step is not distinct from o.step
	returning 1
),
inputs as (
	delete from {schema}.map_items i
	using (
		select x.*
		from old o,
			lateral (
				select k.ctid as tid, k.run_id, k.item from {schema}.map_items k where k.run_id = o.run_id and k.step = 0 and k.item = o.step offset 0
			) x
	) x
	where i.ctid = x.tid and i.run_id is not distinct from x.run_id and i.item is not distinct from x.item
),
progress as (
	delete from {schema}.task_progress p
	using (
		select x.*
		from old o, lateral (select k.ctid as tid, k.run_id, k.step from {schema}.task_progress k where k.run_id = o.run_id and k.step = o.step offset 0) x
	) x
	where p.ctid = x.tid and p.run_id is not distinct from x.run_id and p.step is not distinct from x.step
),
signals as (
	delete from {schema}.inbox i
	using heard h
	where i.ctid = h.tid and i.run_id is not distinct from h.run_id and i.n is not distinct from h.n
	returning 1
)
select ln(((select count(*) from tasks) + (select count(*) from signals) = (select count(*) from old) + (select count(*) from heard))::int)
