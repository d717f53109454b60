-- lock_counters: locks the counters of a tenant in all queues.
-- Caller: what has found one of them locked, with little patience, behind a savepoint
-- that is rolled back; and shift_backlog, before it. Locks tenant_groups by (queue,
-- group, lane), waits. Index: tenant_groups_pkey, probed per queue and lane.
select count(*)
from (select q.queue, l.lane from {schema}.queues q, (values (0::smallint), (1::smallint)) as l (lane) order by 1, 2) q,
	lateral (
		select from {schema}.tenant_groups k
		where k.queue = q.queue and k.group_id = @group::int and k.lane = q.lane offset 0 for no key update
	) x
