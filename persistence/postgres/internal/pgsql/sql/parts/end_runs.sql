update {schema}.workflow_runs r
	set remaining = r.remaining - s.sinks, state = case when r.remaining = s.sinks then 10 else r.state end,
		events = r.events + case when r.remaining = s.sinks then 1 else 0 end,
		finished_at = case when r.remaining = s.sinks then s.now end
	from (
		select s.run_id, s.sinks, x.remaining - s.sinks as rest, x.tid, clock.now
		from clock, (select run_id, count(*)::int as sinks from done where cardinality(children) = 0 group by 1 order by 1) s,
			lateral (select k.ctid as tid, k.remaining from {schema}.workflow_runs k where k.id = s.run_id offset 0) x
		offset 0
	) s
	where r.ctid = s.tid and r.id is not distinct from s.run_id
	returning r.id, r.definition, r.state, r.events, r.remaining = s.rest as written
