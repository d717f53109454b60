-- insert_definition_steps: the steps of definitions that are missing. The arrays of children
-- and parents are texts of arrays, because arrays of arrays are rectangular. Returns the
-- definitions of which some were.
-- Caller: RegisterDefinitions, after insert_handlers. Index: workflow_definitions_hash_key,
-- probed per definition; handlers_workflow_step_fingerprint_key, probed per step.
with owners as materialized (
	select array_agg(d.definition order by o.ord) as definitions
	from unnest(@hashes::bytea[]) with ordinality as o (hash, ord)
		left join lateral (select k.definition from {schema}.workflow_definitions k where k.hash = o.hash offset 0) d on true
),
written as (
	insert into {schema}.definition_steps (definition, step, name, kind, traits, pending, children, parents, queue, handler, sleep,
		start_timeout, fingerprint, signal, child, child_output)
	select (select o.definitions from owners o)[d.owner], d.nth, d.name, d.kind, d.traits, d.pending, d.children::int[], d.parents::int[],
		nullif(d.queue, 0), (
			select h.handler from {schema}.handlers h
			where h.workflow = d.workflow and h.step = d.name and h.fingerprint = d.fingerprint offset 0
		), d.sleep, d.start_timeout, d.fingerprint, nullif(d.signal, ''), nullif(d.child, ''),
		case when d.child <> '' then array[d.output_of, d.output_step, case when d.output_signal then 'signal' else 'step' end] end
	from unnest(@owners::int[], @nths::int[], @workflows::text[], @steps::text[], @kinds::smallint[], @traits::smallint[], @pending::int[],
		@children::text[], @parents::text[], @queues::smallint[], @sleeps::bigint[], @start_timeouts::bigint[], @fingerprints::bytea[], @signals::text[],
		@child_runs::text[], @outputs_of::text[], @output_steps::text[], @output_signals::bool[])
		as d (owner, nth, workflow, name, kind, traits, pending, children, parents, queue, sleep, start_timeout, fingerprint, signal,
			child, output_of, output_step, output_signal)
	on conflict (definition, step) do nothing
	returning definition
)
select distinct definition from written
