-- find_numbers: how the steps of definitions are numbered, in order, of definitions that are
-- stored with all of their steps: tasks get these numbers, whatever the rows of handlers say
-- by now. And whether nothing is left to register: handlers have a row for each step, and the
-- definition says what the caller says about the use of its input.
-- Caller: RegisterDefinitions, before and after it writes; JoinPod. Locks nothing.
-- Index: workflow_definitions_hash_key, probed per definition; definition_steps_pkey, one
-- range per definition; handlers_workflow_step_fingerprint_key, probed per step.
select d.hash, s.numbers, s.entered and (d.input_free or not w.input_free)
from unnest(@hashes::bytea[], @input_free::bool[]) as w (hash, input_free),
	lateral (
		select k.definition, k.hash, k.name, coalesce(k.declared, k.steps) + k.has_handler::int as steps, k.input_free
		from {schema}.workflow_definitions k where k.hash = w.hash offset 0
	) d,
	lateral (
		select count(*) as steps, array_agg(k.handler order by k.step) as numbers,
			bool_and(exists (
				select from {schema}.handlers h where h.workflow = d.name and h.step = k.name and h.fingerprint = k.fingerprint offset 0
			)) as entered
		from {schema}.definition_steps k where k.definition = d.definition offset 0
	) s
where s.steps = d.steps
