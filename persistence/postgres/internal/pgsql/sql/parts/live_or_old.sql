-- A run where it is: one statement, so that no read misses one that moves meanwhile.
with live as materialized (select r.* from {schema}.workflow_runs r where r.id = @run),
old as materialized (
	select h.* from {schema}.history_of(case when not exists (select from live) then array[@run::uuid] end) h
)
