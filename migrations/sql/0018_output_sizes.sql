-- How large the outputs of an archived run are, so that a status need not read them. Null:
-- they are small, or the run was archived by a version before this one; then the outputs
-- tell. Takes run_history and its spans exclusively for an instant: a column without a
-- default rewrites no row.
alter table {schema}.run_history add column sizes integer[];
