-- Dead letters: tasks that failed for good, each a row of its own, written by
-- the transaction in which it fails. Successes never touch the table.
-- Takes intake exclusively for an instant.

-- Reasons are lifecycle.DeadReason: 1 attempts exhausted, 2 non-retryable,
-- 3 poison, 4 unregistered, 5 undecodable, 6 timed out.
create table {schema}.dead_letters (
	run_id        uuid not null,
	step          integer not null,
	definition    integer not null,
	reason        smallint not null check (reason between 1 and 6),
	queue         smallint not null, -- of the run
	attempts      integer not null,
	lost          integer not null,
	requeues      integer not null default 0,
	created_at    timestamptz not null, -- of the run
	started_at    timestamptz, -- of the last attempt
	died_at       timestamptz not null,
	requeued_at   timestamptz,
	requeued_as   uuid, -- the run of the last requeue
	tenant        text collate "C" not null,
	workflow      text collate "C" not null,
	step_name     text collate "C" not null,
	class         text,
	error         text,
	trace_context text,
	labels        jsonb,
	input         bytea, -- of the run, once that is archived; its history is dropped as a whole
	history       jsonb, -- the events of the task, the same
	primary key (run_id, step),
	check ((requeues > 0) = (requeued_as is not null))
);

create index dead_letters_by_tenant on {schema}.dead_letters (tenant, run_id, step);

-- Of runs that continue an ended one: the steps that are taken over. Their
-- outputs are in task_progress.
alter table {schema}.intake add column kept integer[];
