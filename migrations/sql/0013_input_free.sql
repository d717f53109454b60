-- Whether nothing that a workflow decides looks at its input; false: something
-- does, or whoever stored the workflow did not say. An input that no program
-- judged is taken only where it is true. Locks the table for an instant: a
-- default that is constant rewrites no row.
alter table {schema}.workflow_definitions add column input_free boolean not null default false;
