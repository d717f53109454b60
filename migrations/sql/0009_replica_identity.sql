-- Sets the replica identity of tables without a primary key to full. Without that, a foreign
-- publication for all tables makes every delete fail. Only deletes write more to the log, and
-- there are few: events and history are appended, and go with their tables. Takes events and
-- history exclusively for an instant.

do $identity$
declare
	part regclass;
begin
	for part in
		select relid from pg_partition_tree($name${schema}.task_events$name$::regclass)
		union all
		select relid from pg_partition_tree($name${schema}.run_history$name$::regclass)
		union all
		select $name${schema}.task_events_kept$name$::regclass
	loop
		execute format('alter table %s replica identity full', part);
	end loop;
end
$identity$;
