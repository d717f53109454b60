-- held_tasks: the tasks that pods hold, by pod, run and step, but those of some
-- runs, tenants and definitions. blind: what they have claimed of tasks that may be over.
-- Caller: LeavePod and ExpirePods, in a statement after the one that locked the
-- pods. Index: claims_pkey; tasks_pkey and workflow_runs_pkey, probed per task.
select c.pod, g.run_id, g.step, g.epoch
from {schema}.claims c,
	unnest(c.runs, c.steps, c.epochs) as g (run_id, step, epoch),
	lateral (
		select @blind::bool or exists (
			select from {schema}.tasks k
			where k.run_id = g.run_id and k.step = g.step and k.state = 3 and k.pod = c.pod and k.epoch = g.epoch
		) as held
		offset 0
	) t
where c.pod = any(@pods::bigint[]) and not g.run_id = any(@skip::uuid[]) and t.held
	and (cardinality(@foreign::int[]) + cardinality(@but::bigint[]) = 0 or not exists (
		select from {schema}.workflow_runs r
		where r.id = g.run_id and (r.definition = any(@foreign::int[]) or r.group_id = any(@but::bigint[])) offset 0
	))
order by 1, 2, 3
limit @limit::int
