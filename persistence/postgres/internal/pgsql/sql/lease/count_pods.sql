-- count_pods: how many pods live, and when the first of their leases ends.
-- Caller: ExpirePods.
select count(*)::int, min(p.expires_at) from {schema}.pods p where not p.dead
