-- look_pods: whether ExpirePods has anything to do, and who leads. One
-- statement, so that an idle leader sends no transactions.
-- Caller: ExpirePods, first. Locks nothing; reads all pods, which are few.
-- Index: claims_pkey, probed per pod.
with {holders}
select clock_timestamp(), exists (select 1 from {schema}.leader_epoch l where l.epoch = @epoch),
	(count(*) filter (where p.dead or p.expires_at <= least(clock_timestamp(), @by::timestamptz) or p.expires_at > clock_timestamp() + p.ttl + interval '1 second')
		+ (select count(*) from missing))::int,
	count(*) filter (where not p.dead)::int, min(p.expires_at) filter (where not p.dead)
from {schema}.pods p
