-- trigger_fast: stores plain runs of known tenants with their tasks and puts
-- their first tasks into the queues, all or none: none if a tenant or a definition
-- is not what the caller takes it for, or if a run may be in history. Says what allot_blocks,
-- insert_runs, expand_runs and insert_ready say, in one transaction of one round
-- trip. A run that exists is a unique violation. An id that is old, or of a clock
-- that is ahead, may be that of a run that goes into history meanwhile, of which
-- this statement's snapshot knows nothing: it is refused, too.
-- Caller: TriggerRuns. Locks tenant_groups by (queue, group, lane), before
-- anything is inserted. Index: tenants_pkey, workflow_definitions_pkey,
-- tenant_groups_pkey and definition_steps_pkey, probed per tenant, definition,
-- counter and run.
with clock as materialized (select clock_timestamp() as now),
sure as materialized (
	select 1
	from clock, {schema}.archived_up_to a
	where a.id < @oldest::uuid
		and @oldest_at::timestamptz > clock.now - @young::bigint * interval '1 microsecond'
		and @latest_at::timestamptz < clock.now + interval '1 second'
		and cardinality(@members::text[]) = (
			select count(*)
			from unnest(@members::text[], @member_groups::int[]) as d (tenant, group_id),
				lateral (select 1 from {schema}.tenants k where k.tenant = d.tenant and k.group_id = d.group_id offset 0) k
		)
		and cardinality(@known::int[]) = (
			select count(*)
			from unnest(@known::int[], @known_hashes::bytea[]) as d (definition, hash),
				lateral (select 1 from {schema}.workflow_definitions k where k.definition = d.definition and k.hash = d.hash offset 0) k,
				lateral (select 1 from {schema}.definition_steps s where s.definition = d.definition and s.step = 0 offset 0) s
		)
),
asked as materialized (
	select d.queue, d.group_id, f.block + d.places as block
	from sure, unnest(@counter_queues::smallint[], @counter_groups::int[], @places::bigint[]) as d (queue, group_id, places),
		lateral (select k.block from {schema}.frontiers k where k.queue = d.queue and k.band = 0 offset 0) f
	order by 1, 2
),
allotted as (
	insert into {schema}.tenant_groups as g (queue, group_id, lane, block)
	select a.queue, a.group_id, 1, a.block from asked a
	on conflict (queue, group_id, lane) do update
	set block = (
		select greatest(g.block, f.block) + excluded.block - f.block
		from {schema}.frontiers f where f.queue = g.queue and f.band = 0
	)
	returning g.queue, g.group_id, g.block
),
counters as materialized ( -- in the order of the arguments
	select array_agg(a.block order by a.queue, a.group_id) as blocks from allotted a
),
r as (
	insert into {schema}.workflow_runs (id, definition, group_id, remaining, events, queue, state, slow, created_at, started_at,
		tenant, key, origin, trace_context, labels, input)
	select d.id, d.definition, d.group_id, d.remaining, d.events, d.queue, d.state, d.slow, clock.now, clock.now,
		d.tenant, nullif(d.key, ''), d.origin, nullif(d.trace_context, ''), d.labels::jsonb, d.input
	from clock, counters c,
		unnest(@runs::uuid[], @definitions::int[], @groups::int[], @remaining::int[], @events::int[], @queues::smallint[],
			@states::smallint[], @slow::bool[], @tenants::text[], @keys::text[], @origins::text[], @traces::text[], @labels::text[],
			@inputs::bytea[])
			as d (id, definition, group_id, remaining, events, queue, state, slow, tenant, key, origin, trace_context, labels, input)
	where c.blocks is not null
	returning id, definition, queue, origin
),
t as (
	insert into {schema}.tasks (run_id, step, handler, epoch, pending, parents, queue, state, traits, children, sleep, start_timeout,
		queued_at)
	select r.id, s.step, s.handler, case when s.pending = 0 then 1 else 0 end, s.pending, s.pending, coalesce(s.queue, r.queue),
		case when s.pending = 0 then 2 else 1 end, s.traits, s.children, nullif(s.sleep, 0), nullif(s.start_timeout, 0),
		case when s.pending = 0 then clock.now end
	from clock, r,
		lateral (
			select * from {schema}.definition_steps k where k.definition = r.definition and k.traits & 16 = 0 offset 0
		) s
	returning run_id, step, epoch
),
waits as (
	insert into {schema}.ready_queue (queue, band, fair_id, run_id, step, handler, suspect)
	select d.queue, 0, d.place + 2097152 * c.blocks[d.counter], d.run_id, d.step, d.handler, false
	from counters c,
		unnest(@ready_queues::smallint[], @ready_counters::int[], @ready_places::bigint[], @ready_runs::uuid[], @ready_steps::int[],
			@ready_handlers::int[]) as d (queue, counter, place, run_id, step, handler)
	where c.blocks is not null
),
noted as (
	insert into {schema}.task_events (run_id, step, n, kind, at, "by")
	select r.id, -1, e.n, e.kind, clock.now, e.by
	from clock, r, lateral (values (1, 32, nullif(r.origin, '')), (2, 33, null)) as e (n, kind, by)
	union all
	select t.run_id, t.step, 1, 1, clock.now, null from clock, t where t.epoch = 1
)
select clock.now, (select count(*)::int from r) from clock
