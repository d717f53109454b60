-- lock_dead_letters: the letters of a run, with what a requeue needs to
-- know of the run.
-- Caller: RequeueDeadLetter. Locks dead_letters by step; may wait for another
-- requeue of the run, for a purge and for the archiver.
-- Index: dead_letters_pkey, one range; dead_inputs_pkey.
select l.step, l.definition, l.workflow, l.tenant, l.queue, l.labels, l.trace_context, l.requeues, l.requeued_as,
	(select i.input from {schema}.dead_inputs i where i.run_id = l.run_id)
from {schema}.dead_letters l
where l.run_id = @run
order by l.step
for update
