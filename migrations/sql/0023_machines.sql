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
	base_epoch   bigint not null, -- of the machine then: its events up to this number may be removed
	base_events  bigint not null, -- of the run, the same
	mark         bigint not null, -- becomes the base
	mark_version integer not null,
	mark_state   bytea not null,
	mark_epoch   bigint not null,
	mark_events  bigint not null
) with (fillfactor = 50);

-- Of what a machine has started, once it has ended: the number that the end has in the inbox of the
-- machine; negative: the machine does not hear of it. Of a machine: the number of the cancel.
alter table {schema}.tasks add column entry bigint;

create index tasks_with_entry on {schema}.tasks (run_id, entry) where entry is not null;

-- An inbox of which much was handled is not read whole for what has come since.
create index inbox_by_number on {schema}.inbox (run_id, n);

-- Of a machine: how many steps its program declares; steps is what its runs count with.
alter table {schema}.workflow_definitions add column declared integer;

-- Of a machine, in the first slice: taken, version, base, base_version; then state and base_state.
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
	when 36 then 'run_failed' when 37 then 'run_canceled' when 38 then 'signaled'
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
