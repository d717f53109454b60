-- list_dead_letters_newest: list_dead_letters the other way round.
-- Caller: ListDeadLetters. Index: dead_letters_pkey, backwards from the last page on.
select {dead_columns}
from (
		select * from {schema}.dead_letters l
		where (l.run_id, l.step) < (@after::uuid, @after_step::int) and {dead_filter}
		order by l.run_id desc, l.step desc
		limit @limit::int
	) l
	{dead_joins}
order by l.run_id desc, l.step desc
