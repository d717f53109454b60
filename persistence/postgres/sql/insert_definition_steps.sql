-- insert_definition_steps: the steps of a definition that are missing. The arrays of children
-- and parents are texts of arrays, because arrays of arrays are rectangular.
-- Caller: RegisterDefinitions, after insert_definition.
with written as (
	insert into {schema}.definition_steps (definition, step, name, kind, traits, pending, children, parents, queue, handler, sleep,
		start_timeout, fingerprint)
	select w.definition, d.ord - 1, d.name, d.kind, d.traits, d.pending, d.children::int[], d.parents::int[], nullif(d.queue, 0),
		d.handler, d.sleep, d.start_timeout, d.fingerprint
	from {schema}.workflow_definitions w, unnest(@names::text[], @kinds::smallint[], @traits::smallint[], @pending::int[], @children::text[], @parents::text[],
		@queues::smallint[], @handlers::int[], @sleeps::bigint[], @start_timeouts::bigint[], @fingerprints::bytea[])
		with ordinality
		as d (name, kind, traits, pending, children, parents, queue, handler, sleep, start_timeout, fingerprint, ord)
	where w.hash = @hash::bytea
	on conflict (definition, step) do nothing
	returning 1
)
select from written
