-- has_work_intake: whether runs wait to be expanded, and signals to be delivered. One
-- statement, so that idle pods send no transactions.
-- Caller: DrainIntake, first. Locks nothing. Index: intake_pkey, intake_signals.
select clock_timestamp(), exists (select 1 from {schema}.intake i where i.signal is null),
	exists (select 1 from {schema}.intake i where i.signal)
