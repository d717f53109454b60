-- insert_definition: stores a definition that is not known yet; no row: it is.
-- Caller: RegisterDefinitions, under lock_catalog.
insert into {schema}.workflow_definitions (definition, hash, name, output, policy, steps, sinks, slow, has_handler, class)
select (select coalesce(max(definition), 0) from {schema}.workflow_definitions) + 1,
	@hash::bytea, @name::text, @output::int, @policy::smallint, @steps::int, @sinks::int, @slow::bool, @has_handler::bool, @class::smallint
where not exists (select from {schema}.workflow_definitions d where d.hash = @hash)
returning definition
