-- mark_requeued: counts a requeue on every dead letter of a run. Returns how
-- many these are.
-- Caller: RequeueDeadLetter, under their locks. Index: dead_letters_pkey.
with l as (
	update {schema}.dead_letters l
	set requeues = l.requeues + 1, requeued_at = @now::timestamptz, requeued_as = @as::uuid
	where l.run_id = @run
	returning 1
)
select count(*)::int from l
