-- find_numbers: how the steps of a definition are numbered, in order: its tasks get these,
-- whatever the rows of handlers say by now.
-- Caller: RegisterDefinitions, after insert_definition_steps. Index: definition_steps_pkey.
select s.definition, s.handler
from {schema}.workflow_definitions d, {schema}.definition_steps s
where d.hash = @hash::bytea and s.definition = d.definition
order by s.step
