-- read_queues: of each queue, how many of its first rows are a tenant's (null: anybody's),
-- whether there are more, and for how long the oldest task of those has been ready.
-- Caller: Queues. Index: ready_queue_pkey, one range per queue up to a number of rows;
-- tasks_pkey, probed for fewer of them.
with o as materialized (
	select (select n.group_id from {schema}.tenants n where n.tenant = @tenant::text) as group_id
)
select q.name, least(c.ready, @most::int), c.looked > @most::int, coalesce(extract(epoch from clock_timestamp() - a.since), 0)::float8
from (select * from {schema}.queues k order by k.name limit @queues::int) q,
	o,
	lateral (
		select count(*)::int as looked, (count(*) filter (where @tenant::text is null or k.fair_id % 2097152 / 2 = o.group_id))::int as ready
		from (
			select k.fair_id from {schema}.ready_queue k where k.queue = q.queue order by k.queue, k.band, k.fair_id limit @most::int + 1
		) k
	) c,
	lateral (
		select min(t.queued_at) as since
		from (
				select k.run_id, k.step
				from (
					select k.fair_id, k.run_id, k.step
					from {schema}.ready_queue k where k.queue = q.queue order by k.queue, k.band, k.fair_id limit @most::int
				) k
				where @tenant::text is null or k.fair_id % 2097152 / 2 = o.group_id
				limit @look::int
			) k,
			lateral (
				select t.queued_at from {schema}.tasks t where t.run_id = k.run_id and t.step = k.step and t.state = 2 offset 0
			) t
	) a
order by q.name
