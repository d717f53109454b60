-- count_dead_letters: how many there are. Caller: CountDeadLetters.
select count(*)::int from {schema}.dead_letters l where {dead_filter}
