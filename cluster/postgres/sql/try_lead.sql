/* troupe try_lead */
-- Campaign. Never waits: a session that waits for the lock pins xmin
-- and the queue bloats.
select pg_try_advisory_lock($1)
