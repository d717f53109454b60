-- The ready queue and what gives places in it. Blocks no session;
-- instant.

-- fair_id = 2 * group + lane + 2^21 * block. Vacuum early (the head of the index
-- fills with dead rows), analyse almost never (an empty queue says nothing).
create table {schema}.ready_queue (
	queue   smallint not null,
	band    smallint not null,
	handler integer not null,
	fair_id bigint not null,
	run_id  uuid not null,
	step    integer not null,
	suspect boolean not null,
	primary key (queue, band, fair_id)
) with (
	autovacuum_vacuum_scale_factor = 0,
	autovacuum_vacuum_threshold = 20000,
	autovacuum_vacuum_cost_delay = 0,
	autovacuum_analyze_scale_factor = 0,
	autovacuum_analyze_threshold = 1000000
);

-- Ready tasks whose handler no living pod registers.
create table {schema}.parked_tasks (
	run_id  uuid not null,
	step    integer not null,
	queue   smallint not null,
	band    smallint not null,
	handler integer not null,
	fair_id bigint not null,
	suspect boolean not null,
	primary key (run_id, step)
);

create index parked_tasks_by_handler on {schema}.parked_tasks (handler, fair_id);

-- Blocks given out per tenant, queue and lane. There is a row for each lane, so that
-- transactions that store new runs of a tenant do not wait for those that record its
-- completions.
create table {schema}.tenant_groups (
	queue    smallint not null,
	group_id integer not null,
	lane     smallint not null check (lane in (0, 1)),
	block    bigint not null,
	primary key (queue, group_id, lane)
) with (fillfactor = 20);

-- The highest block served per queue.
create table {schema}.frontiers (
	queue smallint not null,
	band  smallint not null,
	block bigint not null,
	primary key (queue, band)
) with (fillfactor = 10);

insert into {schema}.queues (queue, name) values (1, 'default');
insert into {schema}.frontiers (queue, band, block) values (1, 0, 0);
