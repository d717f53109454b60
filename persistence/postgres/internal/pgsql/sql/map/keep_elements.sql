-- keep_elements: gives a new run the elements of maps that an ended one has completed, with their
-- outputs, numbered behind its steps (lifecycle.Resume). Flag 16 is FlagKept.
-- Caller: RequeueDeadLetter, which has submitted the run in this transaction. Returns how many
-- rows of runs it wrote. Index: tasks_pkey, or that of a span of run_history; workflow_runs_pkey.
with live as materialized (select r.* from {schema}.workflow_runs r where r.id = @run),
old as materialized (
	select h.* from {schema}.history_of(case when not exists (select from live) then array[@run::uuid] end) h
),
done as materialized (
	select k.step, k.owner, k.name, k.output
	from {schema}.tasks k
	where k.run_id = @run and k.declared is not null and k.owner = any(@steps::int[]) and k.traits & 1024 > 0 and k.state = 10
	union all
	select h.first + u.nth::int - 1, u.owner, u.name, u.output
	from old h, unnest(h.declared, h.owners, h.states, h.names, h.outputs) with ordinality as u (declared, owner, state, name, output, nth)
	where u.owner = any(@steps::int[]) and u.declared = u.owner and u.state = 10 -- what a map asked for executes another step
),
made as (
	insert into {schema}.tasks (run_id, step, handler, queue, state, traits, flags, pending, parents, epoch, children, sleep, start_timeout,
		finished_at, output, declared, owner, name)
	select r.id, d.steps + row_number() over (order by k.step), s.handler, coalesce(s.queue, r.queue), 10, s.traits, 16, 0, 0, 1, '{}',
		nullif(s.sleep, 0), nullif(s.start_timeout, 0), @now::timestamptz, k.output, k.owner, k.owner, k.name
	from {schema}.workflow_runs r
		join {schema}.workflow_definitions d on d.definition = r.definition,
		done k,
		lateral (select * from {schema}.definition_steps s where s.definition = r.definition and s.step = k.owner and s.traits & 1024 > 0 offset 0) s
	where r.id = @new::uuid
	returning run_id, step
),
noted as (
	insert into {schema}.task_events (run_id, step, n, kind, at)
	select m.run_id, m.step, 1, 3, @now::timestamptz from made m
),
counted as materialized (select count(*)::int as n from made),
r as (
	update {schema}.workflow_runs r set dynamic_count = nullif(c.n, 0) from counted c where r.id = @new::uuid returning 1
)
select count(*)::int from r
