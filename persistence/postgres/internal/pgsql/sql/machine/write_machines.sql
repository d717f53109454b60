-- write_machines: what activations leave of machines: up to which entry they have handled, and the
-- state (version 0: as it is). One that handles an entry whose number is the next multiple of half
-- (persistence.Crosses) makes a mark, with the state before it, and the mark before that becomes the
-- base. Writes all of them, or fails.
-- Caller: the slow path, under the locks of their runs. Index: machines_pkey.
with d as materialized (
	select * from unnest(@runs::uuid[], @taken::bigint[], @versions::int[], @states::bytea[], @epochs::bigint[], @events::bigint[],
		@started::int[])
		as d (run_id, taken, version, state, epoch, events, started)
),
u as (
	insert into {schema}.machines as m (run_id, taken, version, state, base, base_version, base_state, base_started, base_epoch, base_events,
		base_at, mark, mark_version, mark_state, mark_started, mark_epoch, mark_events, mark_at)
	select d.run_id, d.taken, d.version, d.state, 0, 0, '', 0, 0, 0, null, 0, 0, '', 0,
		case when d.taken >= @half::bigint then d.epoch else 0 end, case when d.taken >= @half::bigint then d.events else 0 end,
		case when d.taken >= @half::bigint then @now::timestamptz end
	from d
	on conflict (run_id) do update
	set taken = excluded.taken,
		version = case when excluded.version = 0 then m.version else excluded.version end,
		state = case when excluded.version = 0 then m.state else excluded.state end,
		base = case when m.taken / @half::bigint <> excluded.taken / @half::bigint then m.mark else m.base end,
		base_version = case when m.taken / @half::bigint <> excluded.taken / @half::bigint then m.mark_version else m.base_version end,
		base_state = case when m.taken / @half::bigint <> excluded.taken / @half::bigint then m.mark_state else m.base_state end,
		base_started = case when m.taken / @half::bigint <> excluded.taken / @half::bigint then m.mark_started else m.base_started end,
		base_epoch = case when m.taken / @half::bigint <> excluded.taken / @half::bigint then m.mark_epoch else m.base_epoch end,
		base_events = case when m.taken / @half::bigint <> excluded.taken / @half::bigint then m.mark_events else m.base_events end,
		base_at = case when m.taken / @half::bigint <> excluded.taken / @half::bigint then m.mark_at else m.base_at end,
		mark = case when m.taken / @half::bigint <> excluded.taken / @half::bigint then m.taken else m.mark end,
		mark_version = case when m.taken / @half::bigint <> excluded.taken / @half::bigint then m.version else m.mark_version end,
		mark_state = case when m.taken / @half::bigint <> excluded.taken / @half::bigint then m.state else m.mark_state end,
		mark_started = case
			when m.taken / @half::bigint <> excluded.taken / @half::bigint then (select d.started from d where d.run_id = m.run_id) else m.mark_started end,
		mark_epoch = case
			when m.taken / @half::bigint <> excluded.taken / @half::bigint then (select d.epoch from d where d.run_id = m.run_id) else m.mark_epoch end,
		mark_events = case
			when m.taken / @half::bigint <> excluded.taken / @half::bigint then (select d.events from d where d.run_id = m.run_id) else m.mark_events end,
		mark_at = case when m.taken / @half::bigint <> excluded.taken / @half::bigint then @now::timestamptz else m.mark_at end
	returning m.taken = (select d.taken from d where d.run_id = m.run_id) as written
)
{all_written}
