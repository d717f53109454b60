-- insert_definition: stores a definition that is not known yet, under the first
-- free one of some numbers; no row: it is known. What an older program did not
-- say about it is added.
-- Caller: RegisterDefinitions, under lock_catalog.
with said as (
	update {schema}.workflow_definitions d set input_free = true
	where d.hash = @hash and @input_free::bool and not d.input_free
)
insert into {schema}.workflow_definitions (definition, hash, name, output, policy, steps, sinks, slow, has_handler, class, input_free)
select f.number, @hash::bytea, @name::text, @output::int, @policy::smallint, @steps::int, @sinks::int, @slow::bool, @has_handler::bool,
	@class::smallint, @input_free::bool
from (
	select z.number
	from generate_series(@number::int, @number::int + @probes::int) as z (number)
	where not exists (select from {schema}.workflow_definitions k where k.definition = z.number)
	order by 1
	limit 1
) f
where not exists (select from {schema}.workflow_definitions d where d.hash = @hash)
returning definition
