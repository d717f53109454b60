-- find_definition_steps: the steps of definitions, in order.
-- Caller: the catalog. Index: definition_steps_pkey.
select s.definition, s.name, s.kind, s.traits, s.pending, s.children, s.parents, s.queue, s.handler, s.sleep, s.start_timeout,
	s.fingerprint, s.signal, s.child, s.child_output
from {schema}.definition_steps s
where s.definition = any(@definitions::int[])
order by s.definition, s.step
