-- insert_counters: makes the counters of tenants again that somebody removed:
-- each continues after the places that its tenant has been given.
-- Caller: whoever is refused a place because it is taken. Locks tenant_groups by
-- (queue, group, lane). Index: none, it reads all that waits; it is needed once
-- after a loss.
with written as (
	insert into {schema}.tenant_groups as g (queue, group_id, lane, block)
	select q.queue, q.fair_id % 2097152 / 2, q.fair_id % 2, max(q.fair_id / 2097152)
	from (
		select r.queue, r.fair_id from {schema}.ready_queue r where r.band = 0
		union all
		select p.queue, p.fair_id from {schema}.parked_tasks p
	) q
	group by 1, 2, 3
	order by 1, 2, 3
	on conflict (queue, group_id, lane) do update set block = excluded.block where g.block < excluded.block
)
{none}
