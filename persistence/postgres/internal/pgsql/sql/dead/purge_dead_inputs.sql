-- purge_dead_inputs: removes the inputs of runs of which no letter is left.
-- Caller: PurgeDeadLetters, after lock_dead_inputs, so that it sees what others
-- have purged. Index: dead_inputs_pkey and dead_letters_pkey, probed per run.
with written as (
	delete from {schema}.dead_inputs i
	using (
		select k.tid, k.run_id
		from unnest(@runs::uuid[]) as d (id),
			lateral (select k.ctid as tid, k.run_id from {schema}.dead_inputs k where k.run_id = d.id offset 0) k
		where not exists (select from {schema}.dead_letters l where l.run_id = d.id)
	) k
	where i.ctid = k.tid and i.run_id is not distinct from k.run_id
)
{none}
