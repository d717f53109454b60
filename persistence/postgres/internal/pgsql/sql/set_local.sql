-- set_local: settings for the rest of a transaction.
-- A commit that is durable already stays as it is.
-- Caller: RecordInTx, before the engine's statements in a user's transaction.
select pg_catalog.set_config(s.name, case when s.name <> 'synchronous_commit' or pg_catalog.current_setting(s.name) = 'off'
	then s.value else pg_catalog.current_setting(s.name) end, true)
from unnest(@names::pg_catalog.text[], @values::pg_catalog.text[]) as s (name, value)
