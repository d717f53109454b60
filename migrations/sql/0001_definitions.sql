-- Definitions, handlers, queues and tenants: written rarely, read into memory.
-- Blocks no session; instant.

create table {schema}.queues (
	queue smallint primary key,
	name  text collate "C" not null unique
);

create table {schema}.handlers (
	handler     integer primary key,
	workflow    text collate "C" not null,
	step        text collate "C" not null,
	fingerprint bytea not null,
	unique (workflow, step, fingerprint)
);

create table {schema}.workflow_definitions (
	definition  integer primary key,
	hash        bytea not null unique,
	name        text collate "C" not null,
	output      integer not null,
	policy      smallint not null,
	steps       integer not null check (steps > 0),
	sinks       integer not null check (sinks > 0),
	slow        boolean not null,
	has_handler boolean not null
);

-- One row per step; the failure handler's step is workflow_definitions.steps.
-- children: step << 3 | conditioned << 2 | edge kind.
create table {schema}.definition_steps (
	definition    integer not null,
	step          integer not null,
	name          text collate "C" not null,
	kind          smallint not null,
	traits        smallint not null,
	pending       integer not null,
	children      integer[] not null,
	parents       integer[] not null,
	queue         smallint, -- null: that of the run
	handler       integer not null,
	sleep         bigint not null, -- nanoseconds
	start_timeout bigint not null, -- nanoseconds
	fingerprint   bytea not null,
	primary key (definition, step)
);

create table {schema}.tenants (
	tenant   text collate "C" primary key,
	group_id integer not null unique check (group_id between 1 and 1048575)
);
