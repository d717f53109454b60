-- try_keys: tries the locks of idempotency keys, in the order given, and says
-- which it got. A user's transaction that holds one keeps it until it ends.
-- Caller: TriggerRuns. Waits for nothing.
select pg_try_advisory_xact_lock(l.key)
from unnest(@locks::bigint[]) with ordinality as l (key, ord)
order by l.ord
