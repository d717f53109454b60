-- What the adapter needs of the migrations.
create schema {schema};
create table {schema}.queues (queue smallint primary key, name text not null unique);
insert into {schema}.queues values (0, 'default'), (1, 'mail, "fast" \ ü');
create table {schema}.ready_queue (
	queue smallint not null, band smallint not null, handler integer not null, fair_id bigint not null,
	run_id uuid not null, step integer not null, suspect boolean not null, primary key (queue, band, fair_id)
);
create table {schema}.durable_timers (
	run_id uuid not null, step integer not null, kind smallint not null, key text not null default '',
	wake_at timestamptz not null, epoch bigint not null, primary key (run_id, step, kind, key)
);
create table {schema}.task_events (
	run_id uuid not null, step integer not null, kind smallint not null, n bigint not null,
	at timestamptz not null, primary key (run_id, step, n)
);
create table {schema}.intake (
	id bigint generated always as identity primary key, run_id uuid not null, at timestamptz, edges bytea
);
create table {schema}.leader_epoch (
	one boolean primary key default true check (one), epoch bigint not null, holder bigint not null, at timestamptz not null
);
insert into {schema}.leader_epoch (epoch, holder, at) values (0, 0, clock_timestamp());
create publication {publication} for table
	{schema}.ready_queue (queue, band, fair_id), {schema}.intake (id), {schema}.durable_timers (run_id, step, kind, key, wake_at),
	{schema}.task_events (run_id, step, n, kind) where (kind in (34, 35, 36, 37))
	with (publish = 'insert');
