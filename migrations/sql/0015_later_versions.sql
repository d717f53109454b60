-- What a database needs to be shared with later versions of the engine, and to be
-- registered in fast. Pods of the version before keep working: they leave "protocol" to
-- its default, and set the timers that they know.
--
-- The number of the engine's protocol that a pod speaks; 0: it is older than the number.
-- Locks the table for an instant: a default that is constant rewrites no row.
alter table {schema}.pods add column protocol smallint not null default 0;

-- Kinds of timers of later versions may be stored: leaders that do not know them pass them
-- over. Locks the table for an instant: the wider check is not tried on rows for which the
-- narrower one held.
alter table {schema}.durable_timers
	drop constraint durable_timers_kind_check,
	add constraint durable_timers_kind_check check (kind between 1 and 15) not valid;

-- Whether a number of a handler is free. Registering waits for it: some milliseconds for
-- each 10,000 steps of stored definitions.
create index definition_steps_by_handler on {schema}.definition_steps (handler);
