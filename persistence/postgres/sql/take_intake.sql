-- take_intake: the oldest runs that wait to be expanded. What another pod has
-- taken is passed over.
-- Caller: DrainIntake. Locks intake by id, waits for nothing. Index: intake_pkey.
select i.id, i.run_id, i.at, i.edges, i.kept from {schema}.intake i order by i.id limit @limit::int for update skip locked
