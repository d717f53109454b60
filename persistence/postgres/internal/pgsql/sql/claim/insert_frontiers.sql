-- insert_frontiers: makes the frontiers again of queues that have lost
-- them. The lowest place that waits is what is served next: a new task
-- stands beside it. Where no task waits, all that was given out was served. Places
-- are told apart by the counters, whatever the frontier is, unless those were
-- removed, too: then it is beyond all places there are.
-- Caller: the slow path and the intake, when allot_blocks returns too little.
-- Waits for a call that does the same. Index: tenant_groups_pkey, one range per
-- queue; ready_queue_pkey, both ends.
with written as (
	insert into {schema}.frontiers (queue, band, block)
	select d.queue, 0, case when given.block >= coalesce(ends.highest, 0) then coalesce(ends.lowest - 1, given.block) else ends.highest end
	from (select distinct queue from unnest(@queues::smallint[]) as z (queue)) d,
		lateral (select coalesce(max(g.block), 0) as block from {schema}.tenant_groups g where g.queue = d.queue) given,
		lateral (
			select min(q.fair_id) / 2097152 as lowest, max(q.fair_id) / 2097152 as highest
			from {schema}.ready_queue q where q.queue = d.queue and q.band = 0
		) ends
	order by d.queue
	on conflict (queue, band) do nothing
)
{none}
