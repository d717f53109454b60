-- keep_steps: has the steps of a new run taken over that an ended one completed.
-- Caller: RequeueDeadLetter, which has submitted the run in this transaction.
-- Returns how many rows it wrote. Locks intake. Index: intake_pkey, its end.
with i as (
	update {schema}.intake i
	set kept = @steps::int[]
	from (select k.id from {schema}.intake k where k.run_id = @run order by k.id desc limit 1) k
	where i.id = k.id
	returning 1
)
select count(*)::int from i
