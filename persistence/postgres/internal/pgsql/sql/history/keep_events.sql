-- keep_events: puts the events aside that some runs have in a span that is to be
-- dropped. los and his are intervals of ids that hold the runs.
-- Caller: RotateEvents, behind the fence; the span takes no writes any more.
-- Index: task_events_*_by_run of the span, per interval.
with named as materialized (select id from unnest(@runs::uuid[]) as z (id)),
moved as (
	delete from {schema}.task_events e
	using unnest(@los::uuid[], @his::uuid[]) as g (lo, hi)
	where e.at >= @since and e.at < @until and e.run_id >= g.lo and e.run_id <= g.hi and (e.run_id in (select id from named)) is true
	returning e.*
),
kept as (
	insert into {schema}.task_events_kept select * from moved returning 1
)
select count(*)::int from kept
