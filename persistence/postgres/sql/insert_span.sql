-- insert_span: notes a span before its table is made. A class of -1 stands for
-- events. Caller: the leader, behind the fence.
insert into {schema}.spans (class, since, until, kept_from)
values (nullif(@class::smallint, -1), @since::timestamptz, @until::timestamptz, @until::timestamptz)
returning span
