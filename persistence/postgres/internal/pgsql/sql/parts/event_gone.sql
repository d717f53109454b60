(case -- of e, an event of the run of a machine m: it happened before the base, or is of a task that was removed
	when e.step = 0 then e.n <= m.base_epoch
	when e.step = -1 then e.kind in (34, 38) and e.n <= m.base_events
	else not exists (select from {schema}.tasks t where t.run_id = m.run_id and t.step = e.step) end)
