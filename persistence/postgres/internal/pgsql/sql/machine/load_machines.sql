-- load_machines: what activations of machines begin with: a row for each with its state, then those
-- of the entries that it has not handled.
-- Caller: whatever grants tasks, if there are machines among them. Locks nothing: only an activation
-- that is recorded changes what it says of the state, and entries come behind those that are there.
-- Index: workflow_runs_pkey and machines_pkey, probed per run; inbox_by_number and
-- tasks_with_entry, one range per run, no longer than the entries that an activation gets.
with m as materialized (
	select d.run_id, coalesce(k.version, 0) as version, k.state, coalesce(k.taken, 0) as taken, coalesce(r.signals, 0) as arrived,
		coalesce(r.dynamic_count, 0) as started
	from unnest(@runs::uuid[]) as d (run_id),
		lateral (select k.signals, k.dynamic_count from {schema}.workflow_runs k where k.id = d.run_id offset 0) r
		left join lateral (select k.version, k.state, k.taken from {schema}.machines k where k.run_id = d.run_id offset 0) k on true
),
{entries}
select m.run_id, 0::bigint as n, m.version, m.state, m.taken, m.arrived, m.started, 0::smallint, null::timestamptz, null, null::bytea, null, null, true
from m
union all
select e.run_id, e.n, 0, null, 0, 0, 0, e.kind, e.at, e.name, e.payload, e.class, e.error, e.kept from entries e
order by 1, 2
