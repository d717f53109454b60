-- find_signals: how many of some signals are there: what was not stored has to be.
-- Caller: whatever sends signals, if some were not stored. Locks nothing. Index: inbox_pkey,
-- probed per signal.
select count(*)::int
from unnest(@runs::uuid[], @ids::text[]) as d (run_id, id),
	lateral (select from {schema}.inbox k where k.run_id = d.run_id and k.id = d.id offset 0) k
