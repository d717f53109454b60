-- load_outcomes: how the parents of the tasks of a claim ended, in the order
-- of the claim and of the parameters; for a failure handler every failed step
-- (nth is 0 there).
-- Caller: as load_grants, right after it. Locks nothing. Index: the primary
-- keys, probed per parent; for failure handlers one range per run.
select g.ord, o.step, o.state, coalesce(octet_length(o.output), -1),
	case when octet_length(o.output) <= @inline_max::int then o.output end, o.class, o.error, n.nth
from {schema}.claims c,
	unnest(c.runs, c.steps) with ordinality as g (run_id, step, ord),
	lateral (select k.definition from {schema}.workflow_runs k where k.id = g.run_id offset 0) r,
	lateral (
		select k.parents, k.traits & 16 > 0 as handles_failure
		from {schema}.definition_steps k where k.definition = r.definition and k.step = g.step offset 0
	) s,
	lateral (
		select u.parent, u.nth from unnest(s.parents) with ordinality as u (parent, nth)
		union all
		select f.step, 0
		from (
			select k.step from {schema}.tasks k where s.handles_failure and k.run_id = g.run_id and k.state = 11 offset 0
		) f
	) n,
	lateral (select * from {schema}.tasks k where k.run_id = g.run_id and k.step = n.parent offset 0) o
where c.pod = @pod and c.claim = @claim
order by g.ord, n.nth, o.step
