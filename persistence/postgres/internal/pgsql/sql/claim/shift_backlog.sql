-- shift_backlog: places tasks of a tenant that stand before what was served last, in a
-- queue that was served without them, behind that: in their order, as if they became
-- ready now. Returns how many.
-- Caller: claims, when the rest of a tenant ends, after lock_counters. Locks ready_queue,
-- skip locked. Index: ready_queue_pkey, up to the frontier; the rows before it are few
-- but for those of tenants that rest.
with low as materialized (
	select q.ctid as tid, q.queue, q.fair_id
	from {schema}.frontiers f,
		lateral (
			select k.ctid, k.queue, k.fair_id from {schema}.ready_queue k
			where k.queue = f.queue and k.band = 0 and k.fair_id < f.block * 2097152 and k.fair_id % 2097152 / 2 = @group::int
			order by k.fair_id
			limit @limit::int
			for update skip locked
		) q
	where f.band = 0
),
placed as materialized (
	select l.tid, l.queue, l.fair_id, l.fair_id % 2 as lane,
		greatest(t.block, f.block) + row_number() over (partition by l.queue, l.fair_id % 2 order by l.fair_id) as block
	from low l
		join {schema}.frontiers f on f.queue = l.queue and f.band = 0
		join {schema}.tenant_groups t on t.queue = l.queue and t.group_id = @group::int and t.lane = l.fair_id % 2
),
moved as (
	update {schema}.ready_queue q
	set fair_id = p.block * 2097152 + @group::bigint * 2 + p.lane
	from placed p
	where q.ctid = p.tid and q.queue is not distinct from p.queue and q.band is not distinct from 0 and q.fair_id is not distinct from p.fair_id
	returning 1
),
counted as (
	update {schema}.tenant_groups t
	set block = p.block
	from (select p.queue, p.lane, max(p.block) as block from placed p group by p.queue, p.lane) p
	where t.queue = p.queue and t.group_id = @group::int and t.lane = p.lane
)
select count(*)::int from moved
having ln((count(*) = (select count(*) from placed))::int) is not null
