-- read_workflows: the stored definitions, with the steps of each that have a function and
-- that no living pod registers.
-- Caller: Workflows. Reads all definitions up to a number. Index: definition_steps_pkey, one
-- range per definition; the handlers of pods are a subplan, which is hashed.
with registered as materialized (
	select distinct h.handler from {schema}.pods p, unnest(p.handlers) as h (handler) where not p.dead
)
select d.name, d.hash, coalesce(d.declared, d.steps), array(
	select s.name
	from {schema}.definition_steps s
	where s.definition = d.definition and s.traits & @sleeps::smallint = 0 and s.handler not in (select handler from registered)
	order by s.step
	limit @most::int
)
from {schema}.workflow_definitions d
order by d.name, d.hash
limit @definitions::int
