-- mark_labeled: a span has an index of labels. Caller: DropHistory. Index: spans_pkey.
with written as (
	update {schema}.spans s set labeled = true where s.span = @span
)
{none}
