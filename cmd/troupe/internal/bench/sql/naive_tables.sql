-- naive_tables: the baseline's tables. No foreign keys; a ready queue in the
-- order of arrival.
create schema naive;
create table naive.runs (id bigserial primary key, state text not null, remaining int not null, input jsonb);
create table naive.tasks (
	run_id bigint not null, step int not null, state text not null, pending int not null, children int[] not null,
	worker int, output jsonb, primary key (run_id, step)
);
create table naive.queue (id bigserial primary key, run_id bigint not null, step int not null);
create table naive.events (id bigserial primary key, run_id bigint not null, step int not null, kind text not null, at timestamptz not null);
