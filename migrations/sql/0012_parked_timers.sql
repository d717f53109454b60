-- Timers that are due and whose runs are not there: whoever removed those may put
-- them back. Here they stand in nobody's way. Takes no lock that anybody waits for;
-- instant.
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
