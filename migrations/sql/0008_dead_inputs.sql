-- Inputs of runs that dead letters outlive, once for all letters of a run.
-- Takes dead_letters exclusively for as long as it copies inputs of such runs.

create table {schema}.dead_inputs (
	run_id uuid primary key,
	input  bytea
);

insert into {schema}.dead_inputs (run_id, input)
select distinct on (l.run_id) l.run_id, l.input
from {schema}.dead_letters l
where l.history is not null
order by l.run_id, l.step;

alter table {schema}.dead_letters drop column input;
