-- State machines: a run with one task that handles the entries of an inbox and starts others.
-- Nothing begins them yet. Pods of the version before keep working: they know no such step, and no
-- machine exists as long as they live.
-- Takes workflow_definitions, tasks, and run_history with its spans exclusively for an instant:
-- columns without a default rewrite no row. Writes of tasks wait while these get an index, which
-- has no row yet: a second or less for each gigabyte of tasks; those of signals for as long.

-- How far a machine has come. Each activation changes the row: half of each page is kept free for
-- that. Entries up to base are no longer kept; base_state and mark_state are those that the machine
-- had when it had handled entries up to base and up to mark. Version 0: it had none.
create table {schema}.machines (
	run_id       uuid primary key,
	taken        bigint not null, -- entries up to this number are handled
	version      integer not null,
	state        bytea not null,
	base         bigint not null,
	base_version integer not null,
	base_state   bytea not null,
	base_started integer not null, -- how many activities, timers and child runs it had started then
	base_epoch   bigint not null, -- of the machine then: its events up to this number may be removed
	base_events  bigint not null, -- of the run, the same
	base_at      timestamptz, -- when that was
	mark         bigint not null, -- becomes the base
	mark_version integer not null,
	mark_state   bytea not null,
	mark_started integer not null,
	mark_epoch   bigint not null,
	mark_events  bigint not null,
	mark_at      timestamptz
) with (fillfactor = 50);

-- Of what a machine has started, once it has ended: the number that the end has in the inbox of the
-- machine; negative: the machine does not hear of it. Of a machine: the number of the cancel.
alter table {schema}.tasks add column entry bigint;

create index tasks_with_entry on {schema}.tasks (run_id, entry) where entry is not null;

-- An inbox of which much was handled is not read whole for what has come since.
create index inbox_by_number on {schema}.inbox (run_id, n);

-- Of a machine: how many steps its program declares; steps is what its runs count with.
alter table {schema}.workflow_definitions add column declared integer;

-- Of a machine, in the first slice: taken, version, base, base_version, base_started; then state and
-- base_state.
-- Beside the tasks of a slice what they do not have of their step: the run may have got another
-- definition since they were made.
alter table {schema}.run_history add column machine bigint[], add column machine_states bytea[],
	add column entries bigint[], add column inputs bytea[], add column own_traits smallint[], add column own_queues smallint[],
	add column own_sleeps bigint[], add column own_timeouts bigint[];

-- As before, with the events of machines.
create or replace function {schema}.event_name(kind smallint) returns text language sql immutable parallel safe
return case kind
	when 1 then 'queued' when 2 then 'started' when 3 then 'completed' when 4 then 'failed' when 5 then 'retrying' when 6 then 'timed_out'
	when 7 then 'lost' when 8 then 'released' when 9 then 'skipped' when 10 then 'canceled' when 11 then 'sleeping' when 12 then 'woken'
	when 13 then 'activated' when 15 then 'trimmed' when 16 then 'waiting'
	when 32 then 'run_created' when 33 then 'run_started' when 34 then 'cancel_requested' when 35 then 'run_completed'
	when 36 then 'run_failed' when 37 then 'run_canceled' when 38 then 'signaled' when 39 then 'signal_refused'
	else 'unknown' end;

-- As before, with the entries of machines.
create or replace view {schema}.every_task as
select t.run_id, t.step, t.handler, t.epoch, t.pod, t.pending, t.parents, t.attempt, t.lost, t.queue, t.state, t.traits, t.flags,
	t.children, t.sleep, t.start_timeout, t.wake_at, t.queued_at, t.started_at, t.finished_at, t.class, t.error, t.output,
	r.tenant, r.definition, t.declared, t.owner, t.name, t.child, t.entry
from {schema}.tasks t
	left join {schema}.workflow_runs r on r.id = t.run_id
union all
select h.id, h.first + u.nth::integer - 1, coalesce(s.handler, 0), u.epoch, u.pod, coalesce(u.pending, 0),
	case when u.declared is null then s.pending else 0 end, coalesce(u.attempt, 0), coalesce(u.lost, 0),
	coalesce(u.queue, s.queue, h.queue), u.state, coalesce(u.traits, s.traits), coalesce(u.flags, 0::smallint),
	case when u.declared is null then s.children else '{}' end, case when u.traits is null then nullif(s.sleep, 0) else u.sleep end,
	case when u.traits is null then nullif(s.start_timeout, 0) else u.timeout end, u.wake_at, u.queued_at, u.started_at, u.finished_at, u.class, u.error, u.output,
	h.tenant, h.definition, u.declared, u.owner, u.name, u.child, u.entry
from {schema}.run_history h,
	unnest(h.states, h.flags, h.pendings, h.epochs, h.attempts, h.losts, h.pods, h.wakes, h.queued, h.started, h.finished,
		h.classes, h.errors, h.outputs, h.declared, h.owners, h.names, h.child_runs, h.entries, h.own_traits, h.own_queues, h.own_sleeps,
		h.own_timeouts)
		with ordinality as u (state, flags, pending, epoch, attempt, lost, pod, wake_at, queued_at, started_at, finished_at, class, error, output,
			declared, owner, name, child, entry, traits, queue, sleep, timeout, nth)
	left join lateral (
		select k.* from {schema}.definition_steps k
		where k.definition = h.definition and k.step = coalesce(u.declared, h.first + u.nth - 1)
	) s on true
where u.state is not null and coalesce(u.traits, s.traits) is not null;

-- As before: what a machine has handled is taken.
create or replace view {schema}.signal_list as
select i.run_id as run, d.name as workflow, r.tenant, i.name, i.id, i.at as sent_at,
	case when i.n is null then 'undelivered' when i.taken_by is null and i.n > coalesce(m.taken, 0) then 'waiting' else 'taken' end as state,
	s.name as step,
	{schema}.json_of(i.payload) as payload_json, octet_length(i.payload) as payload_bytes
from {schema}.inbox i
	left join {schema}.every_run r on r.id = i.run_id
	left join {schema}.workflow_definitions d on d.definition = r.definition
	left join {schema}.machines m on m.run_id = i.run_id
	left join {schema}.definition_steps s on s.definition = r.definition and s.step = coalesce(i.taken_by, case when i.n <= m.taken then 0 end);

-- As before, without the events of machines that stand for nothing any more: those from before the
-- base, and those of tasks that were removed. Their rows go when those of that time do. One of its
-- own (kind 15) says that there were others.
create or replace view {schema}.every_event as
select e.run_id, e.step, e.kind, e.n, e.at, e.pod, e.delay, e.attempt, e.wake_at, e."by", e.class, e.text, r.tenant, r.definition,
	null::text[] collate "C" as dynamic_names,
	(select t.name from {schema}.tasks t where r.dynamic_count > 0 and t.run_id = e.run_id and t.step = e.step) as name
from {schema}.workflow_runs r
	left join {schema}.machines m on m.run_id = r.id and m.base_epoch > 0
	join {schema}.task_events e on e.run_id = r.id -- those of archived runs stay there for a while
where m.run_id is null or not case when e.step = 0 then e.n <= m.base_epoch
	when e.step = -1 then e.kind in (34, 38) and e.n <= m.base_events
	else not exists (select from {schema}.tasks t where t.run_id = m.run_id and t.step = e.step) end
union all
select e.run_id, e.step, e.kind, e.n, e.at, e.pod, e.delay, e.attempt, e.wake_at, e."by", e.class, e.text, r.tenant, r.definition,
	null, (select t.name from {schema}.tasks t where r.dynamic_count > 0 and t.run_id = e.run_id and t.step = e.step)
from {schema}.task_events_kept e
	left join {schema}.workflow_runs r on r.id = e.run_id
	left join {schema}.machines m on m.run_id = e.run_id and m.base_epoch > 0
where m.run_id is null or not case when e.step = 0 then e.n <= m.base_epoch
	when e.step = -1 then e.kind in (34, 38) and e.n <= m.base_events
	else not exists (select from {schema}.tasks t where t.run_id = m.run_id and t.step = e.step) end
union all
select m.run_id, s.step, 15::smallint, s.n, m.base_at, null, null, null, null, null, null, null, r.tenant, r.definition, null, null
from {schema}.machines m
	join {schema}.workflow_runs r on r.id = m.run_id,
	lateral (values (0, m.base_epoch), (-1, m.base_events)) as s (step, n)
where m.base_epoch > 0 and (s.step = 0 or s.n > 2)
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
