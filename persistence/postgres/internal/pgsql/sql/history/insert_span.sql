-- insert_span: notes a span before its table is made. A class of -1 stands for
-- events; the runs of other spans are counted as they are moved in. No row: its number is taken, because the sequence is behind; the next
-- try has the next one. Caller: the leader, behind the fence.
insert into {schema}.spans (class, since, until, kept_from, counted_to)
values (nullif(@class::smallint, -1), @since::timestamptz, @until::timestamptz, @until::timestamptz,
	case when @class::smallint >= 0 then 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid end)
on conflict (span) do nothing
returning span
