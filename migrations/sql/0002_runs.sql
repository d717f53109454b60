-- Runs, tasks and their history. No foreign keys and no index on a column that
-- changes at a transition: either costs more than half of the throughput.
-- Blocks no session; instant.

-- States, here and below, are lifecycle.State: 1 pending, 2 queued, 3 running,
-- 4 backoff, 5 sleeping, 6 waiting, 10 completed, 11 failed, 12 skipped,
-- 13 canceled.
create table {schema}.workflow_runs (
	id            uuid primary key,
	definition    integer not null,
	group_id      integer not null, -- 0: not expanded into tasks yet
	remaining     integer not null check (remaining >= 0),
	events        integer not null,
	queue         smallint not null,
	state         smallint not null check (state in (1, 3, 10, 11, 13)),
	slow          boolean not null,
	canceling     boolean not null default false,
	failing       boolean not null default false,
	unhandled     boolean not null default false,
	cut           boolean not null default false,
	handler_made  boolean not null default false,
	failed_step   integer, -- the first unhandled failure
	created_at    timestamptz not null,
	started_at    timestamptz,
	finished_at   timestamptz,
	tenant        text collate "C" not null,
	key           text collate "C",
	origin        text,
	origin_run    uuid,
	trace_context text,
	cancel_reason text,
	labels        jsonb,
	input         bytea,
	check ((state >= 10) = (finished_at is not null))
) with (fillfactor = 50);

-- Listings, newest first: ids sort by time. An expression, because a planner
-- that takes the table for empty would answer id = ... from an index on
-- (tenant, id), by walking all of it.
create index workflow_runs_by_tenant on {schema}.workflow_runs (tenant, uuid_send(id));

-- A task is updated two to three times; half of each page is kept free so that
-- every update stays on it and touches no index.
create table {schema}.tasks (
	run_id        uuid not null,
	step          integer not null,
	handler       integer not null,
	epoch         bigint not null default 0,
	pod           bigint not null default 0,
	pending       integer not null check (pending >= 0),
	parents       integer not null,
	attempt       integer not null default 0,
	lost          integer not null default 0,
	queue         smallint not null,
	state         smallint not null check (state in (1, 2, 3, 4, 5, 6, 10, 11, 12, 13)),
	traits        smallint not null,
	flags         smallint not null default 0,
	children      integer[] not null,
	sleep         bigint, -- nanoseconds
	start_timeout bigint, -- nanoseconds
	wake_at       timestamptz,
	queued_at     timestamptz,
	started_at    timestamptz,
	finished_at   timestamptz,
	class         text,
	error         text,
	output        bytea,
	primary key (run_id, step),
	check ((state >= 10) = (finished_at is not null)),
	check (state <> 3 or pod > 0)
) with (fillfactor = 50);

create table {schema}.task_progress (
	run_id   uuid not null,
	step     integer not null,
	progress bytea not null,
	primary key (run_id, step)
) with (fillfactor = 50);

-- Append only. n is the task's epoch after the transition; the run itself is
-- step -1. Kinds are lifecycle.EventKind.
create table {schema}.task_events (
	run_id  uuid not null,
	step    integer not null,
	kind    smallint not null,
	n       bigint not null check (n > 0),
	at      timestamptz not null,
	pod     bigint,
	delay   bigint, -- nanoseconds
	attempt integer,
	wake_at timestamptz,
	"by"    text,
	class   text,
	text    text,
	primary key (run_id, step, n)
);

create table {schema}.durable_timers (
	run_id  uuid not null,
	step    integer not null,
	kind    smallint not null check (kind between 1 and 5),
	key     text collate "C" not null default '',
	wake_at timestamptz not null,
	epoch   bigint not null,
	primary key (run_id, step, kind, key)
);

create index durable_timers_by_wake_at on {schema}.durable_timers (wake_at);

create table {schema}.run_keys (
	tenant     text collate "C" not null,
	workflow   text collate "C" not null,
	key        text collate "C" not null,
	input_hash bytea not null,
	run_id     uuid not null,
	primary key (tenant, workflow, key)
);

-- Runs stored by a transaction of the embedder's, until a pod expands them.
create table {schema}.intake (
	id      bigint generated always as identity primary key,
	run_id  uuid not null,
	at      timestamptz,
	edges   bytea
);
