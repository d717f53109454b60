-- link_run: names the run after which a new one names idempotency keys, and what holds for it in
-- place of what its program says.
-- Caller: RequeueDeadLetter, which has submitted the run in this transaction.
-- Returns how many rows it wrote. Index: workflow_runs_pkey.
with r as (
	update {schema}.workflow_runs r set origin_run = @origin::uuid, options = nullif(@options::text, '') where r.id = @run returning 1
)
select count(*)::int from r
