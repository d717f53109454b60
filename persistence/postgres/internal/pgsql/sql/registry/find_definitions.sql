-- find_definitions: definitions by number or by hash.
-- Caller: the catalog. Index: the primary key, and the one on hash.
select d.definition, d.hash, d.name, d.output, d.policy, d.has_handler, d.class, coalesce(d.declared, d.steps), d.input_free
from {schema}.workflow_definitions d
where d.definition = any(@definitions::int[]) or d.hash = any(@hashes::bytea[])
