-- read_clock: the time of this transaction, read after its locks.
-- Caller: every writer of runs on the slow path.
select pg_catalog.clock_timestamp()
