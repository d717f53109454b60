-- insert_signals: stores signals, but those of ids that their runs have, and asks the pods to
-- deliver them. Returns the places of those that it stored, in the order asked.
-- Caller: whatever sends signals. May wait for a transaction that sends one of the same id to
-- the same run; runs come in the order of their ids. Index: inbox_pkey.
with d as materialized (
	select *
	from unnest(@runs::uuid[], @ids::text[], @names::text[], @payloads::bytea[]) with ordinality as d (run_id, id, name, payload, ord)
),
u as (
	insert into {schema}.inbox (run_id, id, name, at, payload)
	select d.run_id, d.id, d.name, clock_timestamp(), coalesce(d.payload, ''::bytea) from d order by d.run_id, d.ord
	on conflict (run_id, id) do nothing
	returning run_id, id
),
stored as materialized (
	select d.run_id, d.ord from d where (d.run_id, d.id) in (select u.run_id, u.id from u)
),
asked as (
	insert into {schema}.intake (run_id, signal) select s.run_id, true from stored s order by s.ord
	returning 1
)
select s.ord::int
from stored s
where ln(((select count(*) from asked) = (select count(*) from stored))::int) is not null
order by s.ord
