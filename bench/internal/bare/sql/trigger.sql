-- trigger: stores runs that start at once, with their tasks, places and events.
-- $1 runs, $2 inputs, $3 definition.
with clock as materialized (select clock_timestamp() as now),
r as materialized (select * from unnest($1::uuid[], $2::bytea[]) with ordinality as r (id, input, nth)),
runs as (
	insert into troupe.workflow_runs (id, definition, group_id, remaining, events, queue, state, slow, created_at, started_at,
		tenant, origin, input)
	select r.id, d.definition, 1, d.sinks, 2, 1, 3, false, clock.now, clock.now, 'default', 'api', r.input
	from r, clock, troupe.workflow_definitions d where d.definition = $3
),
tasks as (
	insert into troupe.tasks (run_id, step, handler, epoch, pending, parents, queue, state, traits, children, queued_at)
	select r.id, s.step, s.handler, case when s.pending = 0 then 1 else 0 end, s.pending, s.pending, 1,
		case when s.pending = 0 then 2 else 1 end, s.traits, s.children, case when s.pending = 0 then clock.now end
	from r, clock, lateral (select * from troupe.definition_steps k where k.definition = $3 offset 0) s
	returning run_id, step, handler, epoch
),
roots as materialized (
	select t.*, row_number() over () as nth, count(*) over () as of from tasks t where t.epoch = 1
),
counter as (
	update troupe.tenant_groups g
	set block = greatest(g.block, f.block) + (select count(*) from roots)
	from troupe.frontiers f
	where f.queue = 1 and f.band = 0 and g.queue = 1 and g.group_id = 1 and g.lane = 1
	returning g.block
),
queued as (
	insert into troupe.ready_queue (queue, band, fair_id, run_id, step, handler, suspect)
	select 1, 0, 3 + 2097152 * (c.block - q.of + q.nth), q.run_id, q.step, q.handler, false from roots q, counter c
)
insert into troupe.task_events (run_id, step, n, kind, at, "by")
select r.id, -1, 1, 32, clock.now, 'api' from r, clock
union all
select r.id, -1, 2, 33, clock.now, null from r, clock
union all
select q.run_id, q.step, 1, 1, clock.now, null from roots q, clock
