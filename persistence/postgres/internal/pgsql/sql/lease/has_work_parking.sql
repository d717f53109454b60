-- has_work_parking: whether ParkTasks has anything to look through, and whether the caller leads.
-- One statement, so that an idle leader sends no transactions.
-- Caller: ParkTasks, first. Locks nothing. Index: ready_queue_pkey and
-- parked_tasks_pkey, for their first rows.
select exists (select 1 from {schema}.leader_epoch l where l.epoch = @epoch),
	exists (select 1 from {schema}.ready_queue q) or exists (select 1 from {schema}.parked_tasks p)
