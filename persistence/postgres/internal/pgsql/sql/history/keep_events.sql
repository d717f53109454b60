-- keep_events: puts the events aside that some runs have in a span that is to be
-- dropped, but of machines those that stand for nothing any more, which it removes from what
-- was put aside before. los and his are intervals of ids that hold the runs.
-- Caller: RotateEvents, behind the fence; the span takes no writes any more.
-- Index: task_events_*_by_run of the span, per interval; machines_pkey,
-- probed per run; task_events_kept_by_run, one range per machine.
with named as materialized (select id from unnest(@runs::uuid[]) as z (id)),
moved as (
	delete from {schema}.task_events e
	using unnest(@los::uuid[], @his::uuid[]) as g (lo, hi)
	where e.at >= @since and e.at < @until and e.run_id >= g.lo and e.run_id <= g.hi and (e.run_id in (select id from named)) is true
	returning e.*
),
kept as (
	insert into {schema}.task_events_kept
	select e.* from moved e left join {schema}.machines m on m.run_id = e.run_id and m.base_epoch > 0
	where m.run_id is null or not {event_gone}
	returning 1
),
gone as (
	delete from {schema}.task_events_kept e
	using {schema}.machines m
	where m.run_id in (select id from named) and m.base_epoch > 0 and e.run_id = m.run_id and {event_gone}
)
select count(*)::int from kept
