-- Child runs: a step begins another run and waits for its end. Nothing begins them yet. Pods of
-- the version before keep working: they know no such steps, and no child run exists as long as
-- they live.
-- Takes workflow_runs, tasks, definition_steps, and run_history with its spans exclusively for an
-- instant: columns without a default rewrite no row. Writes of tasks wait while these get an
-- index, which has no row yet: a second or less for each gigabyte of tasks.

-- Of a child run: the step that waits for it, how many runs are above it, and whether it continues
-- when that step is canceled. Null: no child run.
alter table {schema}.workflow_runs add column parent_run uuid, add column parent_step integer, add column depth smallint,
	add column abandoned boolean;
alter table {schema}.run_history add column parent_run uuid, add column parent_step integer, add column depth smallint,
	add column abandoned boolean;

-- The run that a step has begun; null: none. It stays when the rows of that run are removed.
alter table {schema}.tasks add column child uuid;
alter table {schema}.run_history add column child_runs uuid[];

create index tasks_with_child on {schema}.tasks (run_id, step) where child is not null;

-- The workflow that a step begins a run of, and as what the output of that run was encoded: the
-- workflow, the step or the signal, and which of these it is.
alter table {schema}.definition_steps add column child text collate "C", add column child_output text[] collate "C";

-- As before, with the step that waits for the run.
create or replace view {schema}.every_run as
select
	r.id, r.definition, r.group_id, r.remaining, r.events, r.queue, r.state, r.slow, r.canceling, r.failing, r.unhandled,
	r.cut, r.handler_made, r.failed_step, r.created_at, r.started_at, r.finished_at, r.tenant, r.key, r.origin,
	r.origin_run, r.trace_context, r.cancel_reason, r.labels, r.input, r.dynamic_count, r.signals,
	r.parent_run, r.parent_step, r.depth, r.abandoned
from {schema}.workflow_runs r
union all
select
	h.id, h.definition, h.group_id, h.remaining, h.events, h.queue, h.state, h.slow, h.canceling, h.failing, h.unhandled,
	h.cut, h.handler_made, h.failed_step, h.created_at, h.started_at, h.finished_at, h.tenant, h.key, h.origin,
	h.origin_run, h.trace_context, h.cancel_reason, h.labels, h.input, h.dynamic_count, h.signals,
	h.parent_run, h.parent_step, h.depth, h.abandoned
from {schema}.run_history h
where h.slice = 0;

-- As before, with the run that a step has begun.
create or replace view {schema}.every_task as
select t.run_id, t.step, t.handler, t.epoch, t.pod, t.pending, t.parents, t.attempt, t.lost, t.queue, t.state, t.traits, t.flags,
	t.children, t.sleep, t.start_timeout, t.wake_at, t.queued_at, t.started_at, t.finished_at, t.class, t.error, t.output,
	r.tenant, r.definition, t.declared, t.owner, t.name, t.child
from {schema}.tasks t
	left join {schema}.workflow_runs r on r.id = t.run_id
union all
select h.id, h.first + u.nth::integer - 1, s.handler, u.epoch, u.pod, coalesce(u.pending, 0), s.pending, coalesce(u.attempt, 0), coalesce(u.lost, 0),
	coalesce(s.queue, h.queue), u.state, s.traits, coalesce(u.flags, 0::smallint),
	case when u.declared is null then s.children else '{}' end, nullif(s.sleep, 0),
	nullif(s.start_timeout, 0), u.wake_at, u.queued_at, u.started_at, u.finished_at, u.class, u.error, u.output,
	h.tenant, h.definition, u.declared, u.owner, u.name, u.child
from {schema}.run_history h,
	unnest(h.states, h.flags, h.pendings, h.epochs, h.attempts, h.losts, h.pods, h.wakes, h.queued, h.started, h.finished,
		h.classes, h.errors, h.outputs, h.declared, h.owners, h.names, h.child_runs)
		with ordinality as u (state, flags, pending, epoch, attempt, lost, pod, wake_at, queued_at, started_at, finished_at, class, error, output, declared, owner, name, child, nth),
	{schema}.definition_steps s
where s.definition = h.definition and s.step = coalesce(u.declared, h.first + u.nth - 1);

-- As before, with the run that waits for this one.
create or replace view {schema}.run_list as
select r.id as run, d.name as workflow, r.tenant, {schema}.state_name(r.state) as state, r.key, r.labels, q.name as queue,
	r.created_at, r.started_at, r.finished_at, r.canceling, r.cancel_reason, nullif(r.origin, '') as origin, r.origin_run,
	coalesce(f.name, case when r.failed_step > d.steps then coalesce(r.dynamic_names[r.failed_step - d.steps], (
		select t.name from {schema}.tasks t where t.run_id = r.id and t.step = r.failed_step
	)) end) as failed_step,
	case when r.states is null then (
		select t.class from {schema}.tasks t where t.run_id = r.id and t.step = r.failed_step
	) when r.failed_step > d.steps then r.failed_class else r.classes[r.failed_step + 1] end as class,
	case when r.states is null then (
		select t.error from {schema}.tasks t where t.run_id = r.id and t.step = r.failed_step
	) when r.failed_step > d.steps then r.failed_error else r.errors[r.failed_step + 1] end as error,
	{schema}.json_of(r.input) as input_json, octet_length(r.input) as input_bytes,
	{schema}.json_of(case when r.states is not null then r.outputs[d.output + 1] else (
		select t.output from {schema}.tasks t where t.run_id = r.id and t.step = d.output
	) end) as output_json,
	r.parent_run as parent
from (
		select r.id, r.definition, r.queue, r.state, r.canceling, r.failed_step, r.created_at, r.started_at, r.finished_at, r.tenant,
			r.key, r.origin, r.origin_run, r.cancel_reason, r.labels, r.input, 0 as slice, null::smallint[] as states,
			null::text[] as classes, null::text[] as errors, null::bytea[] as outputs, null::text[] as dynamic_names,
			null::text as failed_class, null::text as failed_error, r.parent_run
		from {schema}.workflow_runs r
		union all
		select h.id, h.definition, h.queue, h.state, h.canceling, h.failed_step, h.created_at, h.started_at, h.finished_at, h.tenant,
			h.key, h.origin, h.origin_run, h.cancel_reason, h.labels, h.input, h.slice, h.states, h.classes, h.errors, h.outputs,
			h.dynamic_names, h.failed_class, h.failed_error, h.parent_run
		from {schema}.run_history h
	) r
	left join {schema}.workflow_definitions d on d.definition = r.definition
	left join {schema}.definition_steps f on f.definition = r.definition and f.step = r.failed_step
	left join {schema}.queues q on q.queue = r.queue
where r.slice = 0;

-- As before, with the run that a step has begun. The attempt of a step that waits for it has not
-- ended.
create or replace view {schema}.step_list as
select t.run_id as run, d.name as workflow, t.tenant, coalesce(t.name, s.name) as step, {schema}.state_name(t.state) as state,
	t.attempt + (t.state = 3 or t.state = 6 and t.traits & 256 > 0 or t.state = 10 and t.traits & 3 = 0 and t.traits & 160 <> 32)::integer as attempt, t.lost as losses, q.name as queue,
	p.name as pod, t.class, t.error, t.queued_at, t.started_at,
	t.finished_at,
	(select w.wake_at from {schema}.durable_timers w where w.run_id = t.run_id and w.step = t.step and w.kind in (1, 2, 7)
		order by w.kind limit 1) as wake_at,
	{schema}.json_of(t.output) as output_json, octet_length(t.output) as output_bytes,
	t.child as child_run
from {schema}.every_task t
	left join {schema}.workflow_definitions d on d.definition = t.definition
	left join {schema}.definition_steps s on s.definition = t.definition and s.step = coalesce(t.declared, t.step)
	left join {schema}.queues q on q.queue = t.queue
	left join {schema}.pod_names p on p.pod = t.pod;
