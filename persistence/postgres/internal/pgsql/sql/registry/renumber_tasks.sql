-- renumber_tasks: gives the open tasks of runs of definitions the numbers that their steps
-- have by now. Returns how many had others.
-- Caller: RegisterDefinitions, for definitions whose steps were not all there: an operator
-- removed them, or they are new and have no runs. Locks tasks, ready_queue and parked_tasks.
-- Index: none, it reads all runs; tasks_pkey, one range per run of theirs.
with stale as materialized (
	select t.run_id, t.step, t.tid, s.handler
	from {schema}.workflow_runs r,
		lateral (
			select k.run_id, k.step, k.declared, k.name, k.traits, k.handler, k.ctid as tid from {schema}.tasks k where k.run_id = r.id and k.state < 10 offset 0
		) t,
		lateral (
			select k.handler from {schema}.definition_steps k
			where t.traits & 4096 = 0 and k.definition = r.definition and k.step = coalesce(t.declared, t.step)
			union all -- what a machine has started, maybe with another version of its program
			select k.handler from {schema}.definition_steps k
			where t.traits & 4096 > 0 and k.definition = r.definition and k.name = split_part(t.name, '#', 1)
				and not exists (select from {schema}.handlers h where h.handler = t.handler and h.step = k.name)
			offset 0
		) s
	where r.definition = any(@definitions::int[]) and s.handler <> t.handler
),
waiting as (
	update {schema}.ready_queue q set handler = s.handler from stale s where q.run_id = s.run_id and q.step = s.step
),
parked as (
	update {schema}.parked_tasks p set handler = s.handler from stale s where p.run_id = s.run_id and p.step = s.step
),
tasks as (
	update {schema}.tasks t set handler = s.handler from stale s where t.run_id = s.run_id and t.step = s.step
	returning 1
)
select count(*)::int from tasks
