-- set_local: settings for the rest of a transaction.
-- Caller: RecordInTx, before the engine's statements in a user's transaction.
select pg_catalog.set_config(s.name, s.value, true)
from unnest(@names::text[], @values::text[]) as s (name, value)
