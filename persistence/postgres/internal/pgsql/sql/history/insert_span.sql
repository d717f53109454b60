-- insert_span: notes a span before its table is made. A class of -1 stands for
-- events. No row: its number is taken, because the sequence is behind; the next
-- try has the next one. Caller: the leader, behind the fence.
insert into {schema}.spans (class, since, until, kept_from)
values (nullif(@class::smallint, -1), @since::timestamptz, @until::timestamptz, @until::timestamptz)
on conflict (span) do nothing
returning span
