-- match_definitions: how many definitions are what the caller takes them for, and
-- have their steps.
-- Caller: the intake, whose numbers a database that took over may not know.
-- Index: workflow_definitions_pkey and definition_steps_pkey, probed per
-- definition.
select count(*)::int
from unnest(@known::int[], @known_hashes::bytea[]) as d (definition, hash),
	lateral (select k.steps from {schema}.workflow_definitions k where k.definition = d.definition and k.hash = d.hash offset 0) k,
	lateral (select 1 from {schema}.definition_steps s where s.definition = d.definition and s.step = k.steps - 1 offset 0) s
