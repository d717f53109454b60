-- list_spans: the spans of events (-1) or of classes of runs, by time, with the
-- clock, whether the caller leads, whether there are runs to add to the counts, and since
-- when those are kept by the hour (null: always); one row without a span if there are none. One statement,
-- so that there is no transaction where there is nothing to do.
-- Caller: each call that makes or drops them. Locks nothing; they are few.
select clock.now, exists (select from {schema}.leader_epoch l where l.epoch = @epoch),
	exists (select from {schema}.run_count_deltas), (select nullif(a.hours_from, '-infinity') from {schema}.archived_up_to a), s.span, coalesce(s.class, -1)::smallint, s.since,
	s.until, s.kept_from, s.keyed, s.closed, s.lowest is not null, s.cursor,
	s.counted_to is distinct from 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid, s.labeled or coalesce(s.lowest > s.highest, false)
from (select clock_timestamp() as now) clock
	left join {schema}.spans s on coalesce(s.class, -1) = any(@classes::smallint[])
order by s.since
