-- has_work_parents: whether steps may wait for child runs, and whether the caller leads. One
-- statement, so that an idle leader sends no transactions.
-- Caller: WakeParents, first. Locks nothing. Index: tasks_with_child, for its first row behind a
-- task.
select exists (select 1 from {schema}.leader_epoch l where l.epoch = @epoch),
	exists (select 1 from {schema}.tasks k where k.child is not null and (k.run_id, k.step) > (@run::uuid, @step::int))
