-- has_work_intake: whether DrainIntake has anything to do. One statement, so that
-- idle pods send no transactions.
-- Caller: DrainIntake, first. Locks nothing. Index: intake_pkey.
select clock_timestamp(), exists (select 1 from {schema}.intake i)
