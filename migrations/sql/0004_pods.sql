-- Pods, their tasks, and the leader. Blocks no session; instant.

-- One row per living start of a process. An id is never given out twice.
create table {schema}.pods (
	id         bigint generated always as identity primary key,
	name       text not null,
	version    text not null,
	slots      integer not null,
	dead       boolean not null default false,
	load       smallint not null default 0,
	started_at timestamptz not null,
	expires_at timestamptz not null,
	queues     text[] not null,
	handlers   integer[] not null
) with (fillfactor = 50);

-- What one call granted. A row goes when its pod renews and none of it is held.
create table {schema}.claims (
	pod    bigint not null,
	claim  uuid not null,
	runs   uuid[] not null,
	steps  integer[] not null,
	epochs bigint[] not null,
	primary key (pod, claim)
) with (
	autovacuum_vacuum_scale_factor = 0,
	autovacuum_vacuum_threshold = 5000,
	autovacuum_vacuum_cost_delay = 0
);

create table {schema}.leader_epoch (
	one    boolean primary key default true check (one),
	epoch  bigint not null,
	holder bigint not null,
	at     timestamptz not null
) with (fillfactor = 10);

insert into {schema}.leader_epoch (epoch, holder, at) values (0, 0, clock_timestamp());
