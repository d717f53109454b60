-- After m (run_id, taken), each once: entries of the inboxes of machines behind taken, by number, at
-- most so many of each and one more. Of those beyond the bounds the payloads are not read: kept is
-- false. What a task is an entry of says lifecycle.Task.Entry; kinds are persistence.EntryKind.
entries as (
	select m.run_id, e.n, e.kind, e.at, e.name, case when e.kept then e.payload end as payload, e.class, e.error, e.kept
	from m,
		lateral (
			select e.*, e.nth = 1 or e.nth <= @limit::int and e.size <= @bytes::bigint as kept
			from (
				select e.*, row_number() over w as nth, sum(coalesce(octet_length(e.payload), 0)) over w as size
				from (
					(
						select k.n, 6::smallint as kind, k.at, k.name, k.payload, null as class, null as error
						from {schema}.inbox k where k.run_id = m.run_id and k.n > m.taken order by k.n limit @limit::int + 1
					)
					union all
					(
						select k.entry, case when k.step = 0 then 7 when k.state <> 10 then 3 when k.traits & 2 > 0 then 5 else 2 end,
							case when k.step = 0 then k.wake_at else k.finished_at end, k.name,
							case when k.state = 10 and k.step > 0 and k.traits & 2 = 0 then k.output end,
							case when k.state <> 10 and k.step > 0 then k.class end,
							case when k.step = 0 then r.cancel_reason when k.state <> 10 then k.error end
						from {schema}.tasks k, {schema}.workflow_runs r
						where k.run_id = m.run_id and k.entry > m.taken and r.id = m.run_id order by k.entry limit @limit::int + 1
					)
				) e
				window w as (order by e.n)
				order by e.n
				limit @limit::int + 1
			) e
			offset 0
		) e
)
