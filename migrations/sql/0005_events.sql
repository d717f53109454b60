-- The history is written by every transition and read run by run, seldom. A
-- primary key on it cost a third of what a transition writes; that no row is
-- there twice follows from the fences. Ids of runs sort by time, as the rows do,
-- so a few kilobytes per thousand rows say which pages may hold a run's.
-- Takes an exclusive lock on the history while the index is built: transitions
-- wait, for about a second per ten million rows.
alter table {schema}.task_events drop constraint task_events_pkey;

create index task_events_by_run on {schema}.task_events
	using brin (run_id uuid_minmax_multi_ops) with (pages_per_range = 32, autosummarize = on);
