-- match_definitions: how many definitions are what the caller takes them for, and
-- have all of their steps.
-- Caller: the intake, whose numbers a database that took over may not know.
-- Index: workflow_definitions_pkey, probed per definition, and definition_steps_pkey, one
-- range per definition.
select count(*)::int
from unnest(@known::int[], @known_hashes::bytea[]) as d (definition, hash),
	lateral (
		select coalesce(k.declared, k.steps) + k.has_handler::int as steps from {schema}.workflow_definitions k
		where k.definition = d.definition and k.hash = d.hash offset 0
	) k,
	lateral (select count(*) as steps from {schema}.definition_steps s where s.definition = d.definition offset 0) s
where s.steps = k.steps
