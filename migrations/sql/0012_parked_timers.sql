-- Due timers of runs that were removed. The runs may be put back. Here these timers delay no
-- others. Blocks no session; instant.
create table {schema}.parked_timers (
	run_id  uuid not null,
	step    integer not null,
	kind    smallint not null,
	key     text collate "C" not null default '',
	wake_at timestamptz not null,
	epoch   bigint not null,
	since   timestamptz not null,
	primary key (run_id, step, kind, key)
);
