	lateral (select * from {schema}.workflow_runs k where k.id = g.run_id offset 0) r
	left join lateral (
		select array_agg(o.step) as steps, array_agg(o.state) as states, array_agg(o.size) as sizes, array_agg(o.output) as outputs,
			array_agg(o.class) as classes, array_agg(o.error) as errors
		from (
			select o.step, o.state, coalesce(octet_length(o.output), -1) as size,
				case
					when octet_length(o.output) <= @inline_max::int and coalesce(octet_length(r.input) * (octet_length(r.input) <= @inline_max::int)::int, 0)
						+ sum(octet_length(o.output) * (octet_length(o.output) <= @inline_max::int)::int) over (order by n.nth, o.step) <= @inline_max::int
					then o.output
				end as output, o.class, o.error
			from (
				select unnest(s.parents) as step, generate_subscripts(s.parents, 1) as nth
				from (
					select k.parents from {schema}.definition_steps k
					where g.parents > 0 and k.definition = r.definition and k.step = g.step offset 0
				) s
				union all
				select k.step, 0 from {schema}.tasks k where g.traits & 16 > 0 and k.run_id = g.run_id and k.state = 11
					and (k.traits & 1024 = 0 or k.declared is null) -- of an element its map tells
			) n,
				lateral (select * from {schema}.tasks k where k.run_id = g.run_id and k.step = n.step offset 0) o
			order by n.nth, o.step
		) o
	) o on true
