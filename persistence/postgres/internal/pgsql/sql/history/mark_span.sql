-- mark_span: how far the removal of a span has come. Caller: the leader, behind
-- the fence. Index: spans_pkey.
with written as (
	update {schema}.spans s set closed = true, cursor = coalesce(@cursor, s.cursor) where s.span = @span
)
{none}
