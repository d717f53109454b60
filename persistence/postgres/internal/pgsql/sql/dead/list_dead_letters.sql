-- list_dead_letters: a page of dead letters, by run and step. Those whose definition
-- was removed by hand have no hash and no fingerprint.
-- Caller: ListDeadLetters. Index: dead_letters_pkey, from the last page on.
select {dead_columns}
from (
		select * from {schema}.dead_letters l
		where (l.run_id, l.step) > (@after::uuid, @after_step::int) and {dead_filter}
		order by l.run_id, l.step
		limit @limit::int
	) l
	{dead_joins}
order by l.run_id, l.step
