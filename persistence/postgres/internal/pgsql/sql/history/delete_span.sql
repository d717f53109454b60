-- delete_span: forgets a span whose table is dropped. Caller: the leader, behind
-- the fence. Index: spans_pkey.
with written as (
	delete from {schema}.spans s where s.span = @span
)
{none}
