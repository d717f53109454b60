-- list_dead_letters: a page of dead letters, by run and step. Those whose definition
-- were removed by hand have no hash.
-- Caller: ListDeadLetters. Index: dead_letters_pkey, from the last page on.
select {dead_columns}
from (
		select * from {schema}.dead_letters l
		where (l.run_id, l.step) > (@after::uuid, @after_step::int) and {dead_filter}
		order by l.run_id, l.step
		limit @limit::int
	) l
	left join lateral (select k.hash from {schema}.workflow_definitions k where k.definition = l.definition offset 0) d on true
order by l.run_id, l.step
