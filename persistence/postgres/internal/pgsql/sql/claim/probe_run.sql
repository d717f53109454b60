-- probe_run: reads all that is stored of a run but its events, and says nothing:
-- whether it can be read is what is asked.
-- Caller: what could not read something of several runs, to know whose it was.
-- Index: the primary keys. It locks nothing.
select (select count(k::text) from {schema}.workflow_runs k where k.id = @run::uuid)
	+ (select count(k::text) from {schema}.tasks k where k.run_id = @run::uuid)
	+ (select count(k::text) from {schema}.task_progress k where k.run_id = @run::uuid)
	+ (select count(k::text) from {schema}.inbox k where k.run_id = @run::uuid)
	+ (select count(k::text) from {schema}.maps k where k.run_id = @run::uuid)
	+ (select count(k::text) from {schema}.machines k where k.run_id = @run::uuid)
	+ (select count(k::text) from {schema}.map_items k where k.run_id = @run::uuid)
