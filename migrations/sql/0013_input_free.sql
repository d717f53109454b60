-- True if no decision of the workflow depends on its input. False also if the program that
-- stored the workflow did not say. An input that no program judged is taken only if true.
-- Locks the table for an instant: a constant default rewrites no row.
alter table {schema}.workflow_definitions add column input_free boolean not null default false;
