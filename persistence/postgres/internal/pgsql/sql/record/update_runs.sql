-- update_runs: what decisions made of runs. Writes all of them, or fails.
-- Caller: the slow path, which holds their locks.
-- Index: workflow_runs_pkey, probed per id.
with d as materialized (
	select * from unnest(@runs::uuid[], @states::smallint[], @remaining::int[], @events::int[], @slow::bool[], @canceling::bool[],
		@failing::bool[], @unhandled::bool[], @cut::bool[], @handler_made::bool[], @failed_steps::int[], @started::bool[],
		@reasons::text[], @dynamic_counts::int[], @signals::bigint[])
		as d (id, state, remaining, events, slow, canceling, failing, unhandled, cut, handler_made, failed_step, started, reason,
			dynamic_count, signals)
),
u as (
	update {schema}.workflow_runs r
	set state = d.state, remaining = d.remaining, events = d.events, slow = d.slow, canceling = d.canceling,
		failing = d.failing, unhandled = d.unhandled, cut = d.cut, handler_made = d.handler_made,
		dynamic_count = nullif(d.dynamic_count, 0), signals = nullif(d.signals, 0), failed_step = nullif(d.failed_step, -1), cancel_reason = coalesce(d.reason, r.cancel_reason),
		started_at = case when d.started then @now::timestamptz else r.started_at end,
		finished_at = case when d.state >= 10 then coalesce(r.finished_at, @now::timestamptz) end
	from (
		select d.*, x.tid
		from d, lateral (select k.ctid as tid from {schema}.workflow_runs k where k.id = d.id offset 0) x
	) d
	where r.ctid = d.tid and r.id is not distinct from d.id
	returning r.state = d.state and r.events = d.events and r.remaining = d.remaining and r.canceling = d.canceling as written
)
{all_written}
