-- read_pod: whether a pod lives. Caller: claim, which could not lock it.
-- Index: pods_pkey.
select exists (select from {schema}.pods p where p.id = @pod and not p.dead and p.expires_at > clock_timestamp())
