-- join_pod: a new pod. Its id is drawn by the caller: a sequence of a database
-- that was set back would give out again what a living pod has.
-- Its name is kept, as those of so many starts before it.
-- Caller: JoinPod. Index: pod_names_by_since, for as many entries as names are kept.
with clock as materialized (select clock_timestamp() as now),
named as (
	insert into {schema}.pod_names (pod, name, since) select @id::bigint, @name::text, clock.now from clock
	on conflict (pod) do update set name = excluded.name, since = excluded.since
),
forgotten as (
	delete from {schema}.pod_names n
	where n.since <= (select k.since from {schema}.pod_names k order by k.since desc offset @names::int - 1 limit 1)
)
insert into {schema}.pods (id, name, version, slots, started_at, expires_at, ttl, queues, handlers, protocol) overriding system value
select @id::bigint, @name::text, @version::text, @slots::int, clock.now, clock.now + lease.ttl, lease.ttl, @queues::text[], @handlers::int[], @protocol::smallint
from clock, (select @ttl::bigint * interval '1 microsecond') as lease (ttl)
returning id, started_at
