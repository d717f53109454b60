-- read_parked: how many of a handler's first parked tasks are a tenant's (null: anybody's), by
-- queue, and since when the oldest of them has been ready. One whose handler was removed by
-- hand has no name.
-- Caller: ParkedWork. Index: parked_tasks_by_handler, from one handler to the next, and then
-- a number of rows of each; tasks_pkey, probed for fewer of them.
with recursive o as materialized (
	select (select n.group_id from {schema}.tenants n where n.tenant = @tenant::text) as group_id
),
h (handler) as (
	(select p.handler from {schema}.parked_tasks p order by p.handler limit 1)
	union all
	select (select p.handler from {schema}.parked_tasks p where p.handler > h.handler order by p.handler limit 1)
	from h
	where h.handler is not null
)
select coalesce(n.workflow, ''), coalesce(n.step, ''), n.fingerprint, q.name, k.tasks, k.more, k.since
from (select h.handler from h where h.handler is not null limit @handlers::int) h
	left join lateral (select * from {schema}.handlers k where k.handler = h.handler offset 0) n on true,
	o,
	lateral (
		select l.queue, least(count(*), @most::int)::int as tasks, bool_or(l.looked > @most::int) as more, min(t.queued_at) as since
		from (
				select l.*, count(*) over () as looked, row_number() over (order by l.fair_id) as nth
				from (
					select p.queue, p.fair_id, p.run_id, p.step
					from {schema}.parked_tasks p where p.handler = h.handler order by p.handler, p.fair_id limit @most::int + 1
				) l
			) l
			left join lateral (
				select k.queued_at from {schema}.tasks k where l.nth <= @look::int and k.run_id = l.run_id and k.step = l.step offset 0
			) t on true
		where @tenant::text is null or l.fair_id % 2097152 / 2 = o.group_id
		group by l.queue
	) k,
	lateral (select c.name from {schema}.queues c where c.queue = k.queue offset 0) q
order by n.workflow, n.step, n.fingerprint, q.name
