-- join_pod: a new pod. Caller: JoinPod.
with clock as materialized (select clock_timestamp() as now)
insert into {schema}.pods (name, version, slots, started_at, expires_at, queues, handlers)
select @name::text, @version::text, @slots::int, clock.now, clock.now + @ttl::bigint * interval '1 microsecond',
	@queues::text[], @handlers::int[]
from clock
returning id, started_at
