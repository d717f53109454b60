-- look_heads: the groups of the tenants at the heads of queues (lifecycle.InlineLook). A task that
-- comes takes a place behind the frontier, or is there already. after, until: as inline_after and
-- inline_until of record_fast; returned as they are now.
-- Caller: the slow path of record, before its tasks get places. Locks nothing. Index:
-- ready_queue_pkey, one short range per queue; frontiers_pkey.
with clock as materialized (select clock_timestamp() as now),
heads as materialized (
	select q.queue, q.until, q.since, h.places, least(h.places[1], coalesce(f.block, 0) * 2097152) as after
	from clock
		cross join lateral (
			select u.queue, u.until,
				case when clock.now < u.until and clock.now > u.until - interval '10 minutes' then u.after else 0 end as since
			from unnest(@queues::smallint[], @after::bigint[], @until::timestamptz[]) u (queue, after, until)
		) q
		cross join lateral (
			select array_agg(k.fair_id order by k.fair_id) as places
			from (
				select k.fair_id from {schema}.ready_queue k
				where k.queue = q.queue and k.band = 0 and k.fair_id >= q.since order by k.fair_id limit 64
			) k
		) h
		left join {schema}.frontiers f on f.queue = q.queue and f.band = 0
)
select h.queue, array(select distinct (p % 2097152 / 2)::int from unnest(h.places) p),
	h.after, case when h.since > 0 then h.until
		else clock_timestamp() + least(interval '10 seconds', greatest(interval '250 milliseconds', 20 * (clock_timestamp() - clock.now))) end
from heads h, clock
order by h.queue
