-- read_dead_letter: one dead letter, whether its run is kept, and its input. One whose
-- definition was removed by hand has no hash and no fingerprint.
-- Caller: DeadLetter. Index: the primary keys, or that of a span of run_history.
{live_or_old}
select {dead_columns}, r.id is not null, coalesce(r.input,
	(select i.input from {schema}.dead_inputs i where i.run_id = l.run_id))
from {schema}.dead_letters l
	left join (
		select k.id, k.input from live k
		union all
		select h.id, h.input from old h where h.slice = 0
	) r on true
	{dead_joins}
where l.run_id = @run and l.step = @step::int and (@tenant::text is null or l.tenant = @tenant::text)
