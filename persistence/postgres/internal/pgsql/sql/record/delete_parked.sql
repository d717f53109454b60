-- delete_parked: parked rows of tasks that left the queue without being
-- claimed. Rows of the ready queue stay for the claim to discard.
-- Caller: the slow path, which holds the locks of the tasks, as every parking
-- them does. Index: parked_tasks_pkey, probed per task.
with asked as materialized (
	select * from unnest(@runs::uuid[], @steps::int[]) as d (run_id, step)
),
d as materialized (
	select distinct x.tid, a.run_id, a.step
	from asked a, lateral (select k.ctid as tid from {schema}.parked_tasks k where k.run_id = a.run_id and k.step = a.step offset 0) x
),
u as (
	delete from {schema}.parked_tasks p
	using d
	where p.ctid = d.tid and p.run_id is not distinct from d.run_id and p.step is not distinct from d.step
	returning true as written
)
{all_written}
