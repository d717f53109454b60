-- insert_definition: stores a definition that is not known yet, under the first
-- free one of some numbers; no row: it is known. What an older program did not
-- say about it is added.
-- Caller: RegisterDefinitions, under lock_catalog. Index: workflow_definitions_pkey, probed for
-- the first number, and for the others if that is taken; workflow_definitions_hash_key.
with said as (
	update {schema}.workflow_definitions d set input_free = true
	where d.hash = @hash and @input_free::bool and not d.input_free
)
insert into {schema}.workflow_definitions (definition, hash, name, output, policy, steps, sinks, slow, has_handler, class, input_free, declared)
select coalesce(
	(select @number::int where not exists (select from {schema}.workflow_definitions k where k.definition = @number::int offset 0)),
	(
		select min(z.number) from generate_series(@number::int + 1, @number::int + @probes::int) as z (number)
		where not exists (select from {schema}.workflow_definitions k where k.definition = z.number offset 0)
	)
), @hash::bytea, @name::text, @output::int, @policy::smallint, @steps::int, @sinks::int, @slow::bool, @has_handler::bool,
	@class::smallint, @input_free::bool, nullif(@declared::int, @steps::int)
where not exists (select from {schema}.workflow_definitions d where d.hash = @hash)
returning definition
