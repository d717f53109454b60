-- trigger_fast: stores plain runs of known tenants with their tasks and puts
-- their first tasks into the queues, all or none: none if a tenant or a definition
-- is not what the caller takes it for, or if a run may be in history. Says what allot_blocks,
-- insert_runs, expand_runs and insert_ready say, in one transaction of one round
-- trip. If the caller takes so many of them, its pod lives and no task waits in their
-- queues, those are granted to it instead, and take no places there
-- (lifecycle.Take); take_after and take_until are as in record_fast. A run that exists is a unique violation. An id that is old, or of a clock
-- that is ahead, may be that of a run that goes into history meanwhile, of which
-- this statement's snapshot knows nothing: it is refused, too.
-- Caller: TriggerRuns. Locks pods (key share, skip locked), then tenant_groups by
-- (queue, group, lane), before anything is inserted. Index: tenants_pkey, workflow_definitions_pkey,
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
				lateral (
					select k.steps + k.has_handler::int as steps from {schema}.workflow_definitions k
					where k.definition = d.definition and k.hash = d.hash offset 0
				) k,
				lateral (select count(*) as steps from {schema}.definition_steps s where s.definition = d.definition offset 0) s
			where s.steps = k.steps
		)
),
heads as materialized (
	select q.queue, q.until, q.since, h.place, least(h.place, coalesce(f.block, 0) * 2097152) as after
	from sure, clock
		cross join lateral (
			select u.queue, u.until,
				case when clock.now < u.until and clock.now > u.until - interval '10 minutes' then u.after else 0 end as since
			from unnest(@take_queues::smallint[], @take_after::bigint[], @take_until::timestamptz[]) u (queue, after, until)
		) q
		left join lateral (
			select k.fair_id as place
			from {schema}.ready_queue k
			where k.queue = q.queue and k.band = 0 and k.fair_id >= q.since order by k.fair_id limit 1
		) h on true
		left join {schema}.frontiers f on f.queue = q.queue and f.band = 0
),
taker as materialized (
	select 1
	from {schema}.pods p, clock
	where p.id = @pod and not p.dead and p.expires_at > clock.now
		and exists (select from heads) and not exists (select from heads where place is not null)
		and not exists (select from {schema}.claims c where c.pod = @pod and c.claim = @claim)
	for key share of p skip locked
),
granted as materialized (
	select d.run_id, d.step, d.ord
	from taker, unnest(@ready_runs::uuid[], @ready_steps::int[]) with ordinality as d (run_id, step, ord)
	where d.ord <= @take::bigint
),
begun as materialized (select count(*) as taken from granted),
asked as materialized (
	select d.queue, d.group_id, f.block + d.places - case when begun.taken > 0 then d.taken else 0 end as block
	from sure, begun,
		unnest(@counter_queues::smallint[], @counter_groups::int[], @places::bigint[], @taken_places::bigint[])
			as d (queue, group_id, places, taken),
		lateral (select k.block from {schema}.frontiers k where k.queue = d.queue and k.band = 0 offset 0) f
	where begun.taken = 0 or d.taken < d.places
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
	select array_agg(a.block order by d.ord) as blocks
	from unnest(@counter_queues::smallint[], @counter_groups::int[]) with ordinality as d (queue, group_id, ord)
		left join allotted a on a.queue = d.queue and a.group_id = d.group_id
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
	where c.blocks is not null and exists (select from sure)
	returning id, definition, queue, origin
),
t as (
	insert into {schema}.tasks (run_id, step, handler, epoch, pending, parents, queue, state, traits, children, sleep, start_timeout,
		queued_at, pod, started_at)
	select r.id, s.step, s.handler, case when s.pending > 0 then 0 when s.taken then 2 else 1 end, s.pending, s.pending,
		coalesce(s.queue, r.queue), case when s.pending > 0 then 1 when s.taken then 3 else 2 end, s.traits, s.children,
		nullif(s.sleep, 0), nullif(s.start_timeout, 0), case when s.pending = 0 then clock.now end,
		case when s.taken then @pod else 0 end, case when s.taken then clock.now end
	from clock, r,
		lateral (
			select k.*, k.pending = 0 and (r.id, k.step) in (select g.run_id, g.step from granted g) as taken
			from {schema}.definition_steps k where k.definition = r.definition and k.traits & 4112 = 0 offset 0
		) s
	returning run_id, step, epoch
),
waits as (
	insert into {schema}.ready_queue (queue, band, fair_id, run_id, step, handler, suspect)
	select d.queue, 0, d.place + 2097152 * c.blocks[d.counter], d.run_id, d.step, d.handler, false
	from counters c, begun,
		unnest(@ready_queues::smallint[], @ready_counters::int[], @ready_places::bigint[], @ready_runs::uuid[], @ready_steps::int[],
			@ready_handlers::int[]) with ordinality as d (queue, counter, place, run_id, step, handler, ord)
	where exists (select from sure) and d.ord > begun.taken
	returning 1
),
claimed as (
	insert into {schema}.claims (pod, claim, runs, steps, epochs)
	select @pod, @claim, array_agg(run_id order by ord), array_agg(step order by ord), array_agg(2::bigint) from granted
	having count(*) > 0
	returning 1
),
noted as (
	insert into {schema}.task_events (run_id, step, n, kind, at, "by", pod, attempt)
	select r.id, -1, e.n, e.kind, clock.now, e.by, null::bigint, null::int
	from clock, r, lateral (values (1, 32, nullif(r.origin, '')), (2, 33, null)) as e (n, kind, by)
	union all
	select t.run_id, t.step, 1, 1, clock.now, null, null, null from clock, t where t.epoch > 0
	union all
	select t.run_id, t.step, 2, 2, clock.now, null, @pod, 1 from clock, t where t.epoch = 2
)
select clock.now, (select count(*)::int from r), begun.taken::int,
	array(select queue from heads order by queue), array(select after from heads order by queue),
	array(
		select case when h.since > 0 then h.until
			else clock_timestamp() + least(interval '10 seconds', greatest(interval '250 milliseconds', 20 * (clock_timestamp() - clock.now))) end
		from heads h order by h.queue
	)
from clock, begun
where (
	select ln((
		(select count(*) from r) = stored.n * cardinality(@runs::uuid[]) and (select count(*) from t) = stored.n * @tasks::bigint
		and (select count(*) from waits) = stored.n * (cardinality(@ready_runs::uuid[]) - begun.taken)
		and (select count(*) from claimed) = (begun.taken > 0)::int
	)::int)
	from (select count(*) as n from sure, counters where blocks is not null) stored, begun
) is not null
