-- list_spans: the spans of events (-1) or of classes of runs, by time, with the
-- clock and whether the caller leads; one row without a span if there are none. One statement,
-- so that there is no transaction where there is nothing to do.
-- Caller: each call that makes or drops them. Locks nothing; they are few.
select clock.now, exists (select from {schema}.leader_epoch l where l.epoch = @epoch), s.span, coalesce(s.class, -1)::smallint, s.since,
	s.until, s.kept_from, s.keyed, s.closed, s.lowest is not null, s.cursor
from (select clock_timestamp() as now) clock
	left join {schema}.spans s on coalesce(s.class, -1) = any(@classes::smallint[])
order by s.since
