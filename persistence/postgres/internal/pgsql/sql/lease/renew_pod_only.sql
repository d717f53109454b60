-- renew_pod_only: extends a lease and says nothing about what the pod holds. No
-- row: dead.
-- Caller: the pulse, where renew_pod waits for a lock or takes too long. It
-- reads pods alone, so that a lock on any other table costs no pod its lease.
-- Locks pods (no key update, which does not wait for the key share of records).
-- Index: pods_pkey.
with clock as materialized (select clock_timestamp() as now),
pod as (
	update {schema}.pods p
	set expires_at = clock.now + lease.ttl, ttl = lease.ttl, load = @load::smallint
	from clock, (select @ttl::bigint * interval '1 microsecond') as lease (ttl)
	where p.id = @pod and not p.dead
	returning p.id, p.expires_at
),
crowd as materialized (
	select count(*)::int as pods, count(*) filter (where p.slots > 0)::int as executing,
		count(*) filter (where l.load < 2)::int as waiting,
		count(*) filter (where l.load = 0)::int as idle, count(*) filter (where l.load = 0 and p.id < @pod)::int as place
	from {schema}.pods p, lateral (select case when p.id = @pod then @load::smallint else p.load end as load) l
	where not p.dead
)
select clock.now, pod.expires_at, crowd.pods, crowd.executing, crowd.waiting, crowd.idle, crowd.place
from clock, pod, crowd
