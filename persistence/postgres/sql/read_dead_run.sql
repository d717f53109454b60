-- read_dead_run: the run of a dead letter, wherever it is; none if it is gone.
-- Caller: RequeueDeadLetter. Index: the primary keys.
select r.state, r.input, r.origin_run from {schema}.every_run r where r.id = @run
