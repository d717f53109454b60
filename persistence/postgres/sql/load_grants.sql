-- load_grants: what a claim still holds, with all that an attempt needs: the
-- outcomes of its parents in the order of the parameters, or for a failure
-- handler those of every failed step.
-- Caller: claim and record, after they granted or when they are asked again.
-- Locks nothing. Index: the primary keys, probed per task and per parent; for
-- failure handlers one range per run.
select t.run_id, t.step, t.epoch, t.attempt, t.lost, t.handler, t.queued_at, t.started_at, r.definition, r.tenant, r.labels,
	r.trace_context, r.created_at, r.canceling, coalesce(octet_length(r.input), -1),
	case when octet_length(r.input) <= @inline_max::int then r.input end, p.progress,
	o.steps, o.states, o.sizes, o.outputs, o.classes, o.errors
from {schema}.claims c,
	unnest(c.runs, c.steps, c.epochs) with ordinality as g (run_id, step, epoch, ord),
	lateral (
		select * from {schema}.tasks k where k.run_id = g.run_id and k.step = g.step offset 0
	) t,
	lateral (select * from {schema}.workflow_runs k where k.id = g.run_id offset 0) r
	left join lateral (
		select k.progress from {schema}.task_progress k where k.run_id = g.run_id and k.step = g.step offset 0
	) p on true
	left join lateral (
		select array_agg(o.step) as steps, array_agg(o.state) as states, array_agg(o.size) as sizes, array_agg(o.output) as outputs,
			array_agg(o.class) as classes, array_agg(o.error) as errors
		from (
			select o.step, o.state, coalesce(octet_length(o.output), -1) as size,
				case when octet_length(o.output) <= @inline_max::int then o.output end as output, o.class, o.error
			from (
				select u.parent as step, u.nth
				from (
					select k.parents from {schema}.definition_steps k
					where t.parents > 0 and k.definition = r.definition and k.step = g.step offset 0
				) s, unnest(s.parents) with ordinality as u (parent, nth)
				union all
				select k.step, 0 from {schema}.tasks k where t.traits & 16 > 0 and k.run_id = g.run_id and k.state = 11
			) n,
				lateral (select * from {schema}.tasks k where k.run_id = g.run_id and k.step = n.step offset 0) o
			order by n.nth, o.step
		) o
	) o on true
where c.pod = @pod and c.claim = @claim and t.state = 3 and t.epoch = g.epoch and t.pod = c.pod
order by g.ord
