-- join_pod: a new pod. Its id is drawn by the caller: a sequence of a database
-- that was set back would give out again what a living pod has.
-- Caller: JoinPod.
with clock as materialized (select clock_timestamp() as now)
insert into {schema}.pods (id, name, version, slots, started_at, expires_at, ttl, queues, handlers, protocol) overriding system value
select @id::bigint, @name::text, @version::text, @slots::int, clock.now, clock.now + lease.ttl, lease.ttl, @queues::text[], @handlers::int[], @protocol::smallint
from clock, (select @ttl::bigint * interval '1 microsecond') as lease (ttl)
returning id, started_at
