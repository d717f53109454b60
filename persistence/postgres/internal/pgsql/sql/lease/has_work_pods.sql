-- has_work_pods: whether ExpirePods has anything to do, whether the caller leads, and whether a
-- session sends what its client does not read any more. One
-- statement, so that an idle leader sends no transactions.
-- Caller: ExpirePods, first. Locks nothing; reads all pods, which are few.
-- Index: claims_pkey, probed per pod.
with {holders}
select clock_timestamp(), exists (select 1 from {schema}.leader_epoch l where l.epoch = @epoch),
	(count(*) filter (where p.dead or p.expires_at <= least(clock_timestamp(), @by::timestamptz) or p.expires_at > clock_timestamp() + p.ttl + interval '1 second')
		+ (select count(*) from missing))::int,
	count(*) filter (where not p.dead)::int, min(p.expires_at) filter (where not p.dead),
	exists (
		select 1 from pg_catalog.pg_stat_activity a
		where {unread} and strpos(a.query, @schema::text) > 0 and {may_end} and a.query_start < clock_timestamp() - @given_up::bigint * interval '1 microsecond'
	)
from {schema}.pods p
