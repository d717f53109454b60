-- read_pods: the pods that were not declared dead, with how long their leases still are, and
-- the pod that led last.
-- Caller: Pods. Index: pods_pkey.
select p.id, p.name, p.version, p.protocol, p.slots, p.queues, p.started_at, p.expires_at,
	extract(epoch from p.expires_at - clock_timestamp())::float8, (select coalesce(max(k.holder), 0) from {schema}.leader_epoch k)
from {schema}.pods p
where not p.dead
order by p.id
limit @most::int
