-- keep_machine: gives a new run what the machine of an ended one continues from: its state, which is
-- also where the entries begin that are kept, and the signals that it has not handled.
-- Caller: RequeueDeadLetter, which has submitted the run in this transaction.
-- Index: machines_pkey, or that of a span of run_history; inbox_by_number, one range.
{live_or_old},
m as materialized (
	select m.taken, m.version, m.state, live.dynamic_count as started from live, {schema}.machines m where m.run_id = live.id
	union all
	select h.machine[1], h.machine[2]::int, coalesce(h.machine_states[1], ''), h.dynamic_count from old h where h.slice = 0 and h.machine is not null
),
signals as (
	insert into {schema}.inbox (run_id, id, n, name, at, payload)
	select @new::uuid, i.id, i.n, i.name, i.at, i.payload
	from {schema}.inbox i
	where i.run_id = @run and i.n > coalesce((select m.taken from m), 0)
	order by i.n
),
written as (
	insert into {schema}.machines (run_id, taken, version, state, base, base_version, base_state, base_started, base_epoch, base_events,
		mark, mark_version, mark_state, mark_started, mark_epoch, mark_events)
	select @new::uuid, m.taken, m.version, m.state, m.taken, m.version, m.state, m.started, 0, 0, m.taken, m.version, m.state, m.started, 0, 0
	from m
)
{none}
