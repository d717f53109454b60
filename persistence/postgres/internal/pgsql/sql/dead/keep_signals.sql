-- keep_signals: gives a new run the delivered signals of an ended one. Those that steps have
-- taken which it does not take over wait for these again.
-- Caller: RequeueDeadLetter, which has submitted the run in this transaction. Returns how many
-- rows of runs it wrote. Index: inbox_pkey, one range; workflow_runs_pkey.
with kept as (
	insert into {schema}.inbox (run_id, id, n, name, at, taken_by, payload)
	select @new::uuid, i.id, i.n, i.name, i.at, case when i.taken_by = any(@steps::int[]) then i.taken_by end, i.payload
	from {schema}.inbox i
	where i.run_id = @run and i.n is not null
	order by i.n
	returning n
),
counted as materialized (select max(k.n) as signals from kept k),
r as (
	update {schema}.workflow_runs r set signals = c.signals from counted c where r.id = @new returning 1
)
select count(*)::int from r
