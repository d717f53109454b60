-- lock_dead_inputs: has calls that purge letters of the same runs take turns.
-- Caller: PurgeDeadLetters, after purge_dead_letters. Locks dead_inputs by run;
-- may wait for another purge, which waits for nothing. Index: dead_inputs_pkey.
select 1
from (select distinct id from unnest(@runs::uuid[]) as z (id) order by id) d,
	lateral (select 1 from {schema}.dead_inputs k where k.run_id = d.id offset 0 for update) k
