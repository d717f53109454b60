-- Requeues with options, and letters of failures that were handled. Pods of the version before keep
-- working: they execute such a run with the options of its program, and their letters do not say.
-- Takes dead_letters and workflow_runs exclusively for an instant: columns without a default
-- rewrite no row.

-- Whether the failure did not fail the run by itself; null: it is not known.
alter table {schema}.dead_letters add column handled boolean;

-- What holds for the run in place of what its program says; null: nothing does.
alter table {schema}.workflow_runs add column options text;
