-- read_dead_parents: how the parents of a dead task ended, in the order of the
-- parameters of its function.
-- Caller: DeadLetter. Index: the primary keys, or that of a span of run_history.
{live_or_old},
{tasks_of_run}
select o.step, o.state, coalesce(octet_length(o.output), -1), case when octet_length(o.output) <= @inline_max::int then o.output end,
	o.class, o.error
from {schema}.dead_letters l,
	lateral (select k.parents from {schema}.definition_steps k where k.definition = l.definition and k.step = l.step offset 0) s,
	unnest(s.parents) with ordinality as n (step, nth),
	lateral (select * from t k where k.step = n.step offset 0) o
where l.run_id = @run and l.step = @step::int
order by n.nth
