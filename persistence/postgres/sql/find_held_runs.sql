-- find_held_runs: the runs, among some, of tenants in whose counters somebody
-- else holds a row, and a transaction that does: whoever gives their tasks places
-- would wait.
-- Caller: whoever writes runs, in a strict look, and leaders, behind a
-- savepoint that is rolled back. Locks tenant_groups until then, waits for
-- nothing. Index: workflow_runs_pkey and tenant_groups_pkey, probed per run and
-- per tenant and queue.
with asked as materialized (
	select k.id, k.group_id
	from (select distinct id from unnest(@runs::uuid[]) as z (id)) d,
		lateral (select k.id, k.group_id from {schema}.workflow_runs k where k.id = d.id offset 0) k
),
counters as materialized (
	select q.queue, t.group_id, k.lane, k.holder
	from (select distinct a.group_id from asked a) t, {schema}.queues q,
		lateral (
			select k.lane, k.xmax::text::bigint as holder from {schema}.tenant_groups k
			where k.queue = q.queue and k.group_id = t.group_id and k.lane in (0, 1) offset 0
		) k
),
open as materialized (
	select c.queue, c.group_id, c.lane
	from counters c,
		lateral (
			select from {schema}.tenant_groups k
			where k.queue = c.queue and k.group_id = c.group_id and k.lane = c.lane offset 0 for no key update skip locked
		) k
)
select a.id, h.holder
from asked a
	join (
		select c.group_id, max(c.holder) as holder
		from counters c
		where (c.queue, c.group_id, c.lane) not in (select o.queue, o.group_id, o.lane from open o)
		group by c.group_id
	) h using (group_id)
