-- try_groups: tries to be the only call that counts and grants running tasks of
-- some tenants, until the transaction ends.
-- Caller: claims and records under a limit per tenant. Waits for nothing.
select pg_try_advisory_xact_lock(l.key)
from unnest(@locks::bigint[]) with ordinality as l (key, ord)
order by l.ord
