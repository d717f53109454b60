-- check_pod: the pod may write until this transaction ends: expiry waits for
-- the lock. No row: it is dead or its lease has run out.
-- Caller: record. Locks pods (key share), waits for expiry; a renewal does not
-- wait for it. Index: pods_pkey.
select 1 from {schema}.pods p where p.id = @pod and not p.dead and p.expires_at > clock_timestamp() for key share
