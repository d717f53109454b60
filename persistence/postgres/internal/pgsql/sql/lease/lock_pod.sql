-- lock_pod: a living pod that leaves: nothing of it is recorded any more.
-- Caller: LeavePod. Locks pods (update), waits for records in flight.
select p.id from {schema}.pods p where p.id = @pod and not p.dead for update
