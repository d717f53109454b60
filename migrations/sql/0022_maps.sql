-- Maps: a step executes a function for each item of a list. Nothing begins them yet. Pods of the
-- version before keep working: they know no such steps, and no map exists as long as they live.
-- Takes run_history with its spans exclusively for an instant: a column without a default rewrites
-- no row. Writes of tasks wait while these get an index, which has rows of dynamic tasks only: a
-- second or less for each gigabyte of tasks.

-- How far a map has come that has begun elements, which are dynamic tasks. Each end of an element
-- changes the row: most of each page is kept free for that.
create table {schema}.maps (
	run_id     uuid not null,
	step       integer not null,
	at_once    integer not null, -- so many elements are open at once
	allowed    integer not null, -- so many may end without completing
	items      integer not null, -- of the list
	items_left integer not null, -- that have no element yet
	next_item  integer not null, -- the items below have one, or need none
	open       integer not null, -- elements that have not ended
	failed     integer not null, -- elements that have ended without completing
	primary key (run_id, step),
	check (items_left >= 0 and open >= 0 and failed >= 0)
) with (fillfactor = 10);

-- The items of the list, but those whose elements an earlier run has completed.
create table {schema}.map_items (
	run_id  uuid not null,
	step    integer not null,
	item    integer not null,
	payload bytea not null,
	primary key (run_id, step, item)
);

-- In the first slice, of each map: step, at_once, allowed, items, items_left, next_item, open, failed.
alter table {schema}.run_history add column maps integer[];

-- Dynamic tasks that are no elements of maps (trait 1024): who reads the steps of a run leaves
-- those out, of which there may be very many.
create index tasks_dynamic on {schema}.tasks (run_id, step) where declared is not null and traits & 1024 = 0;

-- As before: an element has no parents, though its map has.
create or replace view {schema}.every_task as
select t.run_id, t.step, t.handler, t.epoch, t.pod, t.pending, t.parents, t.attempt, t.lost, t.queue, t.state, t.traits, t.flags,
	t.children, t.sleep, t.start_timeout, t.wake_at, t.queued_at, t.started_at, t.finished_at, t.class, t.error, t.output,
	r.tenant, r.definition, t.declared, t.owner, t.name, t.child
from {schema}.tasks t
	left join {schema}.workflow_runs r on r.id = t.run_id
union all
select h.id, h.first + u.nth::integer - 1, s.handler, u.epoch, u.pod, coalesce(u.pending, 0),
	case when u.declared is null then s.pending else 0 end, coalesce(u.attempt, 0), coalesce(u.lost, 0),
	coalesce(s.queue, h.queue), u.state, s.traits, coalesce(u.flags, 0::smallint),
	case when u.declared is null then s.children else '{}' end, nullif(s.sleep, 0),
	nullif(s.start_timeout, 0), u.wake_at, u.queued_at, u.started_at, u.finished_at, u.class, u.error, u.output,
	h.tenant, h.definition, u.declared, u.owner, u.name, u.child
from {schema}.run_history h,
	unnest(h.states, h.flags, h.pendings, h.epochs, h.attempts, h.losts, h.pods, h.wakes, h.queued, h.started, h.finished,
		h.classes, h.errors, h.outputs, h.declared, h.owners, h.names, h.child_runs)
		with ordinality as u (state, flags, pending, epoch, attempt, lost, pod, wake_at, queued_at, started_at, finished_at, class, error, output, declared, owner, name, child, nth),
	{schema}.definition_steps s
where s.definition = h.definition and s.step = coalesce(u.declared, h.first + u.nth - 1);

-- As before, with the name of a dynamic task, found by its number. A run may have very many of
-- them: the list of all their names is null.
create or replace view {schema}.every_event as
select e.run_id, e.step, e.kind, e.n, e.at, e.pod, e.delay, e.attempt, e.wake_at, e."by", e.class, e.text, r.tenant, r.definition,
	null::text[] collate "C" as dynamic_names,
	(select t.name from {schema}.tasks t where r.dynamic_count > 0 and t.run_id = e.run_id and t.step = e.step) as name
from {schema}.workflow_runs r,
	{schema}.task_events e -- those of archived runs stay there for a while
where e.run_id = r.id
union all
select e.run_id, e.step, e.kind, e.n, e.at, e.pod, e.delay, e.attempt, e.wake_at, e."by", e.class, e.text, r.tenant, r.definition,
	null, (select t.name from {schema}.tasks t where r.dynamic_count > 0 and t.run_id = e.run_id and t.step = e.step)
from {schema}.task_events_kept e
	left join {schema}.workflow_runs r on r.id = e.run_id
union all
select h.id, u.step, u.kind, u.n, u.at, u.pod, u.delay, u.attempt, u.wake_at, u."by", u.class, u.text, h.tenant, h.definition, null, u.name
from {schema}.run_history h,
	lateral (
		select k.*, max(k.own) over (partition by k.step) as name -- one pass, however many tasks there are
		from (
			select u.*, null::text collate "C" as own
			from unnest(h.event_steps, h.event_kinds, h.event_ns, h.event_ats, h.event_pods, h.event_delays, h.event_tries, h.event_wakes,
				h.event_bys, h.event_classes, h.event_texts)
				as u (step, kind, n, at, pod, delay, attempt, wake_at, "by", class, text)
			union all
			select (select d.steps from {schema}.workflow_definitions d where d.definition = h.definition) + u.nth::integer,
				null, null, null, null, null, null, null, null, null, null, u.name
			from unnest(h.dynamic_names) with ordinality as u (name, nth)
		) k
	) u
where not h.plain and u.kind is not null
union all
select h.id, -1, u.kind, u.n, u.at, null, null, null, null, u."by", null, null, h.tenant, h.definition, null, null
from {schema}.run_history h,
	lateral (
		values (32::smallint, 1::bigint, h.created_at, nullif(h.origin, '')), (33::smallint, 2::bigint, h.started_at, null),
			(35::smallint, 3::bigint, h.finished_at, null)
	) as u (kind, n, at, "by")
where h.plain and h.slice = 0
union all
select h.id, h.first + u.nth::integer - 1, e.kind, e.n, e.at, e.pod, null, e.attempt, null, null, null, null, h.tenant, h.definition, null, null
from {schema}.run_history h,
	unnest(h.queued, h.started, h.finished, h.pods) with ordinality as u (queued, started, finished, pod, nth),
	lateral (
		values (1::smallint, 1::bigint, u.queued, null::bigint, null::integer), (2::smallint, 2::bigint, u.started, u.pod, 1),
			(3::smallint, 3::bigint, u.finished, null, null)
	) as e (kind, n, at, pod, attempt)
where h.plain;

create or replace view {schema}.event_list as
select e.run_id as run, d.name as workflow, e.tenant, coalesce(s.name, e.name) as step, e.n, {schema}.event_name(e.kind) as kind, e.at,
	p.name as pod, nullif(e.pod, 0) as pod_number, e.attempt,
	e.delay / 1000 * interval '1 microsecond' as delay, e.wake_at, nullif(e."by", '') as "by", e.class, e.text
from {schema}.every_event e
	left join {schema}.workflow_definitions d on d.definition = e.definition
	left join {schema}.definition_steps s on s.definition = e.definition and s.step = e.step
	left join {schema}.pod_names p on p.pod = e.pod;
