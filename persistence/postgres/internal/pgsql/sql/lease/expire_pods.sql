-- expire_pods: declares pods dead whose lease has run out, and returns them
-- with those that were dead before. A pod that is renewed or records right now
-- is left for the next time. A pod whose row was removed by hand while it held
-- tasks is as dead: without it nothing is claimed or recorded any more.
-- One that ends after by has not run out, though the clock says so: it has leapt.
-- A lease that ends further away than it is long was renewed while the clock was
-- ahead: it is taken as renewed now, so that it runs out unless its pod lives.
-- With each comes how many have died lately, but for clients, which execute nothing. A
-- death in what is to come is of a clock that was ahead.
-- Caller: ExpirePods. Locks pods (update), waits for nothing. Index:
-- claims_pkey, probed per pod; reads all deaths, which are few.
with {holders},
clock as materialized (select clock_timestamp() as now),
late as materialized (
	select p.id, p.dead as known, p.slots = 0 as client from {schema}.pods p, clock
	where p.dead or p.expires_at <= least(clock.now, @by::timestamptz)
	order by p.id
	for update of p skip locked
),
ahead as materialized (
	select p.id from {schema}.pods p, clock
	where not p.dead and p.expires_at > clock.now + p.ttl + interval '1 second'
	order by p.id
	for update of p skip locked
),
shortened as (
	update {schema}.pods p set expires_at = clock.now + p.ttl from clock, ahead a where p.id = a.id
),
dead as (
	update {schema}.pods p set dead = true from late l where p.id = l.id and not l.known
),
gone (id, known, client) as materialized (
	select id, known, client from late union all select pod, false, false from missing
),
told as materialized ( -- those that still say something
	select e.pod, e.at > clock.now - @lately::bigint * interval '1 microsecond' as lately from {schema}.deaths e, clock
	where e.at > clock.now - @kept::bigint * interval '1 microsecond' and e.at <= clock.now
	order by e.at desc, e.pod limit @max::int
),
forgotten as (
	delete from {schema}.deaths e
	using (
		select k.ctid as tid, k.pod from {schema}.deaths k where k.pod not in (select pod from told) for update skip locked
	) d
	where e.ctid = d.tid and e.pod is not distinct from d.pod
),
fresh as (
	insert into {schema}.deaths (pod, at) select g.id, clock.now from gone g, clock where not g.known and not g.client
	on conflict (pod) do nothing
)
select g.id, least(d.lately, @max::int)::int, least(d.kept, @max::int)::int
from gone g, (
	select count(*) filter (where lately) as lately, count(*) as kept
	from (select lately from told t where t.pod not in (select id from gone where not known) union all select true from gone where not known and not client) d
) d
