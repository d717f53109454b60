-- History: runs that ended leave the hot tables. The leader moves each into one
-- compact row of run_history, in a partition that is dropped as a whole when
-- the runs in it have been kept for as long as their class says. Events are
-- only ever appended: their table is cut into spans of time, and a span is
-- dropped once no run in the hot tables has events in it.
-- Takes task_events, workflow_runs, tasks and workflow_definitions exclusively:
-- transitions wait while the events so far get an index, for about a second per
-- million rows.

-- 0 standard, 1 short, 2 long, 3 permanent.
alter table {schema}.workflow_definitions add column class smallint not null default 0 check (class between 0 and 3);

-- What was appended so far is kept by rows, as the events of runs are that
-- outlive the span they began in.
alter table {schema}.task_events rename to task_events_kept;
drop index {schema}.task_events_by_run;
create index task_events_kept_by_run on {schema}.task_events_kept (run_id);

create table {schema}.task_events (like {schema}.task_events_kept including constraints) partition by range (at);

-- For events without a partition.
create table {schema}.task_events_default partition of {schema}.task_events default;
create index task_events_default_by_run on {schema}.task_events_default (run_id);

-- A run is one row; one with many tasks or much output has further rows, its
-- slices, with the tasks from "first" on. Arrays have one element per task; null
-- stands for nothing but nulls or zeros. Of a plain run every task was queued,
-- started and completed, once, and nothing else happened: its events follow from
-- that and are not kept.
create table {schema}.run_history (
	id            uuid not null,
	slice         integer not null,
	first         integer not null,
	class         smallint not null,
	plain         boolean not null,
	finished_at   timestamptz not null,
	definition    integer not null,
	group_id      integer not null,
	remaining     integer not null,
	events        integer not null,
	queue         smallint not null,
	state         smallint not null,
	slow          boolean not null,
	canceling     boolean not null,
	failing       boolean not null,
	unhandled     boolean not null,
	cut           boolean not null,
	handler_made  boolean not null,
	failed_step   integer,
	created_at    timestamptz not null,
	started_at    timestamptz,
	tenant        text collate "C" not null,
	key           text collate "C",
	origin        text,
	origin_run    uuid,
	trace_context text,
	cancel_reason text,
	labels        jsonb,
	input         bytea,
	states        smallint[],
	flags         smallint[],
	pendings      integer[],
	epochs        bigint[],
	attempts      integer[],
	losts         integer[],
	pods          bigint[],
	wakes         timestamptz[],
	queued        timestamptz[],
	started       timestamptz[],
	finished      timestamptz[],
	classes       text[],
	errors        text[],
	outputs       bytea[],
	event_steps   integer[],
	event_kinds   smallint[],
	event_ns      bigint[],
	event_ats     timestamptz[],
	event_pods    bigint[],
	event_delays  bigint[],
	event_tries   integer[],
	event_wakes   timestamptz[],
	event_bys     text[],
	event_classes text[],
	event_texts   text[]
) partition by list (class);

create table {schema}.run_history_0 partition of {schema}.run_history for values in (0) partition by range (finished_at);
create table {schema}.run_history_1 partition of {schema}.run_history for values in (1) partition by range (finished_at);
create table {schema}.run_history_2 partition of {schema}.run_history for values in (2) partition by range (finished_at);
create table {schema}.run_history_3 partition of {schema}.run_history for values in (3) partition by range (finished_at);

-- The partitions by time: run_history_<class>_<span> and task_events_<span>.
create table {schema}.spans (
	span      integer generated always as identity primary key,
	class     smallint, -- null: of events
	since     timestamptz not null,
	until     timestamptz not null,
	kept_from timestamptz not null, -- the retention counts from here
	keyed     boolean not null default false, -- runs with idempotency keys are in it
	closed    boolean not null default false, -- it is not written to any more
	cursor    uuid -- how far it was walked through to be removed
);

-- No run above this id was ever archived, so that a trigger need not look for it in
-- history.
create table {schema}.archived_up_to (
	one boolean primary key default true check (one),
	id  uuid not null
) with (fillfactor = 10);

insert into {schema}.archived_up_to (id) values ('00000000-0000-0000-0000-000000000000');

-- The first span of events, so that a new database has one before it has a
-- leader, which makes the next ones.
do $first$
declare
	first record;
begin
	insert into {schema}.spans (since, until, kept_from)
	select now(), now() + interval '15 minutes', now() + interval '15 minutes'
	returning span, since, until into first;
	execute $sql$create table {schema}.task_events_$sql$ || first.span
		|| $sql$ partition of {schema}.task_events for values from ($sql$
		|| quote_literal(first.since) || ') to (' || quote_literal(first.until) || ')';
	execute $sql$create index on {schema}.task_events_$sql$ || first.span
		|| ' using brin (run_id uuid_minmax_multi_ops) with (pages_per_range = 32, autosummarize = on)';
end
$first$;

-- Runs, tasks and events wherever they are.
create view {schema}.every_run as
select
	r.id, r.definition, r.group_id, r.remaining, r.events, r.queue, r.state, r.slow, r.canceling, r.failing, r.unhandled,
	r.cut, r.handler_made, r.failed_step, r.created_at, r.started_at, r.finished_at, r.tenant, r.key, r.origin,
	r.origin_run, r.trace_context, r.cancel_reason, r.labels, r.input
from {schema}.workflow_runs r
union all
select
	h.id, h.definition, h.group_id, h.remaining, h.events, h.queue, h.state, h.slow, h.canceling, h.failing, h.unhandled,
	h.cut, h.handler_made, h.failed_step, h.created_at, h.started_at, h.finished_at, h.tenant, h.key, h.origin,
	h.origin_run, h.trace_context, h.cancel_reason, h.labels, h.input
from {schema}.run_history h
where h.slice = 0;

create view {schema}.every_task as
select t.run_id, t.step, t.handler, t.epoch, t.pod, t.pending, t.parents, t.attempt, t.lost, t.queue, t.state, t.traits, t.flags,
	t.children, t.sleep, t.start_timeout, t.wake_at, t.queued_at, t.started_at, t.finished_at, t.class, t.error, t.output
from {schema}.tasks t
union all
select h.id, s.step, s.handler, u.epoch, u.pod, coalesce(u.pending, 0), s.pending, coalesce(u.attempt, 0), coalesce(u.lost, 0),
	coalesce(s.queue, h.queue), u.state, s.traits, coalesce(u.flags, 0::smallint), s.children, nullif(s.sleep, 0),
	nullif(s.start_timeout, 0), u.wake_at, u.queued_at, u.started_at, u.finished_at, u.class, u.error, u.output
from {schema}.run_history h,
	unnest(h.states, h.flags, h.pendings, h.epochs, h.attempts, h.losts, h.pods, h.wakes, h.queued, h.started, h.finished,
		h.classes, h.errors, h.outputs) with ordinality as u (state, flags, pending, epoch, attempt, lost, pod, wake_at, queued_at,
		started_at, finished_at, class, error, output, nth),
	{schema}.definition_steps s
where s.definition = h.definition and s.step = h.first + u.nth - 1;

create view {schema}.every_event as
select e.run_id, e.step, e.kind, e.n, e.at, e.pod, e.delay, e.attempt, e.wake_at, e."by", e.class, e.text
from {schema}.workflow_runs r, {schema}.task_events e -- those of archived runs stay there for a while
where e.run_id = r.id
union all
select e.run_id, e.step, e.kind, e.n, e.at, e.pod, e.delay, e.attempt, e.wake_at, e."by", e.class, e.text
from {schema}.task_events_kept e
union all
select h.id, u.step, u.kind, u.n, u.at, u.pod, u.delay, u.attempt, u.wake_at, u."by", u.class, u.text
from {schema}.run_history h,
	unnest(h.event_steps, h.event_kinds, h.event_ns, h.event_ats, h.event_pods, h.event_delays, h.event_tries, h.event_wakes,
		h.event_bys, h.event_classes, h.event_texts)
		as u (step, kind, n, at, pod, delay, attempt, wake_at, "by", class, text)
where not h.plain
union all
select h.id, -1, u.kind, u.n, u.at, null, null, null, null, u."by", null, null
from {schema}.run_history h,
	lateral (
		values (32::smallint, 1::bigint, h.created_at, nullif(h.origin, '')), (33::smallint, 2::bigint, h.started_at, null),
			(35::smallint, 3::bigint, h.finished_at, null)
	) as u (kind, n, at, "by")
where h.plain and h.slice = 0
union all
select h.id, h.first + u.nth::integer - 1, e.kind, e.n, e.at, e.pod, null, e.attempt, null, null, null, null
from {schema}.run_history h,
	unnest(h.queued, h.started, h.finished, h.pods) with ordinality as u (queued, started, finished, pod, nth),
	lateral (
		values (1::smallint, 1::bigint, u.queued, null::bigint, null::integer), (2::smallint, 2::bigint, u.started, u.pod, 1),
			(3::smallint, 3::bigint, u.finished, null, null)
	) as e (kind, n, at, pod, attempt)
where h.plain;

-- Rows leave these tables all the time: what they leave is to be found again
-- before the tables grow.
alter table {schema}.workflow_runs set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 20000,
	autovacuum_vacuum_cost_delay = 0);
alter table {schema}.tasks set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 50000,
	autovacuum_vacuum_cost_delay = 0);
