-- read_machine: how far the machine of a run has come, with a page of its inbox: a row for the run,
-- then one for each entry behind after. Signals stay in the inbox when the run moves into history.
-- Caller: Machine. Index: workflow_runs_pkey and machines_pkey, or that of a span of run_history;
-- inbox_by_number and tasks_with_entry, one range, no longer than the page.
{live_or_old},
m as materialized (
	select live.id as run_id, @after::bigint as taken from live
),
{entries},
r as materialized (
	select k.definition, k.tenant, k.signals, k.dynamic_count, m.taken, m.version, m.state, m.base, m.base_version, m.base_state, m.base_started
	from live k left join {schema}.machines m on m.run_id = k.id
	union all
	select h.definition, h.tenant, h.signals, h.dynamic_count, h.machine[1], h.machine[2]::int, h.machine_states[1], h.machine[3], h.machine[4]::int,
		h.machine_states[2], h.machine[5]::int
	from old h where h.slice = 0
),
kept as (
	select e.n, e.kind, e.at, e.name, e.payload, e.class, e.error, e.kept from entries e
	union all
	select e.n, e.kind, e.at, e.name, case when e.kept then e.payload end, e.class, e.error, e.kept
	from (
		select e.*, row_number() over w = 1 or row_number() over w <= @limit::int and sum(coalesce(octet_length(e.payload), 0)) over w <= @bytes::bigint as kept
		from (
			(
				select k.n, 6 as kind, k.at, k.name, k.payload, null as class, null as error
				from old h, {schema}.inbox k
				where h.slice = 0 and k.run_id = h.id and k.n > @after::bigint order by k.n limit @limit::int + 1
			)
			union all
			(
				select u.entry, case when u.own & 2048 > 0 then 7 when u.state <> 10 then 3 when u.own & 2 > 0 then 5 else 2 end,
					case when u.own & 2048 > 0 then u.wake_at else u.finished_at end, u.name,
					case when u.state = 10 and u.own & 2050 = 0 then u.output end,
					case when u.state <> 10 and u.own & 2048 = 0 then u.class end,
					case when u.own & 2048 > 0 then h.cancel_reason when u.state <> 10 then u.error end
				from old h, unnest(h.entries, h.states, h.own_traits, h.wakes, h.finished, h.names, h.outputs, h.classes, h.errors)
					as u (entry, state, own, wake_at, finished_at, name, output, class, error)
				where u.entry > @after::bigint order by u.entry limit @limit::int + 1
			)
		) e
		window w as (order by e.n)
		order by e.n
		limit @limit::int + 1
	) e
)
select r.definition, r.tenant, coalesce(r.taken, 0), coalesce(r.version, 0), r.state, coalesce(r.signals, 0), coalesce(r.dynamic_count, 0),
	coalesce(r.base, 0), coalesce(r.base_version, 0), r.base_state, coalesce(r.base_started, 0), 0::bigint, 0, null::timestamptz, null, null::bytea, null, null, true
from r
union all
select 0, '', 0, 0, null, 0, 0, 0, 0, null, 0, k.n, k.kind, k.at, k.name, k.payload, k.class, k.error, k.kept from kept k where @limit::int > 0
order by 12
