-- Views for people and their programs, with names where tables have numbers: run_list,
-- step_list, event_list and dead_letter_list. They show what runs and what is in history
-- alike. A role that may read them needs no right on a table (troupe grant).
-- A later migration that changes a column which they read drops them first, makes them
-- again, and gives them the rights that they had; one that adds columns need not.
-- Blocks no session but readers of every_task and every_event, for an instant.

-- Names of pods, also of those that have ended: events say by which pod.
create table {schema}.pod_names (
	pod   bigint primary key,
	name  text not null,
	since timestamptz not null
);

create index pod_names_by_since on {schema}.pod_names (since);

insert into {schema}.pod_names (pod, name, since) select p.id, p.name, p.started_at from {schema}.pods p;

-- The names of codes, as lifecycle has them.
create function {schema}.state_name(state smallint) returns text language sql immutable parallel safe
return case state
	when 1 then 'pending' when 2 then 'queued' when 3 then 'running' when 4 then 'backoff' when 5 then 'sleeping' when 6 then 'waiting'
	when 10 then 'completed' when 11 then 'failed' when 12 then 'skipped' when 13 then 'canceled'
	else 'state(' || state::text || ')' end;

create function {schema}.event_name(kind smallint) returns text language sql immutable parallel safe
return case kind
	when 1 then 'queued' when 2 then 'started' when 3 then 'completed' when 4 then 'failed' when 5 then 'retrying' when 6 then 'timed_out'
	when 7 then 'lost' when 8 then 'released' when 9 then 'skipped' when 10 then 'canceled' when 11 then 'sleeping' when 12 then 'woken'
	when 32 then 'run_created' when 33 then 'run_started' when 34 then 'cancel_requested' when 35 then 'run_completed'
	when 36 then 'run_failed' when 37 then 'run_canceled'
	else 'unknown' end;

create function {schema}.reason_name(reason smallint) returns text language sql immutable parallel safe
return case reason
	when 1 then 'attempts_exhausted' when 2 then 'non_retryable' when 3 then 'poison' when 4 then 'unregistered'
	when 5 then 'undecodable' when 6 then 'timed_out'
	else 'reason(' || reason::text || ')' end;

-- A payload if it is JSON that jsonb takes, and at most 1 MiB: so much is parsed in some
-- milliseconds. Before PostgreSQL 16 only an exception tells. Not for parallel workers,
-- which could not catch it.
create function {schema}.json_of(payload bytea) returns jsonb language plpgsql immutable strict as $json$
begin
	if pg_catalog.octet_length(payload) > 1048576 then
		return null;
	end if;
	return pg_catalog.convert_from(payload, 'UTF8')::pg_catalog.jsonb;
exception when others then
	return null;
end
$json$;

-- The functions run with the caller's rights, and read no table.
grant execute on function {schema}.state_name, {schema}.event_name, {schema}.reason_name, {schema}.json_of to public;

-- As before, with the tenant and the definition of the run.
create or replace view {schema}.every_task as
select t.run_id, t.step, t.handler, t.epoch, t.pod, t.pending, t.parents, t.attempt, t.lost, t.queue, t.state, t.traits, t.flags,
	t.children, t.sleep, t.start_timeout, t.wake_at, t.queued_at, t.started_at, t.finished_at, t.class, t.error, t.output,
	r.tenant, r.definition
from {schema}.tasks t
	left join {schema}.workflow_runs r on r.id = t.run_id
union all
select h.id, s.step, s.handler, u.epoch, u.pod, coalesce(u.pending, 0), s.pending, coalesce(u.attempt, 0), coalesce(u.lost, 0),
	coalesce(s.queue, h.queue), u.state, s.traits, coalesce(u.flags, 0::smallint), s.children, nullif(s.sleep, 0),
	nullif(s.start_timeout, 0), u.wake_at, u.queued_at, u.started_at, u.finished_at, u.class, u.error, u.output,
	h.tenant, h.definition
from {schema}.run_history h,
	unnest(h.states, h.flags, h.pendings, h.epochs, h.attempts, h.losts, h.pods, h.wakes, h.queued, h.started, h.finished,
		h.classes, h.errors, h.outputs) with ordinality as u (state, flags, pending, epoch, attempt, lost, pod, wake_at, queued_at,
		started_at, finished_at, class, error, output, nth),
	{schema}.definition_steps s
where s.definition = h.definition and s.step = h.first + u.nth - 1;

create or replace view {schema}.every_event as
select e.run_id, e.step, e.kind, e.n, e.at, e.pod, e.delay, e.attempt, e.wake_at, e."by", e.class, e.text, r.tenant, r.definition
from {schema}.workflow_runs r, {schema}.task_events e -- those of archived runs stay there for a while
where e.run_id = r.id
union all
select e.run_id, e.step, e.kind, e.n, e.at, e.pod, e.delay, e.attempt, e.wake_at, e."by", e.class, e.text, r.tenant, r.definition
from {schema}.task_events_kept e
	left join {schema}.workflow_runs r on r.id = e.run_id
union all
select h.id, u.step, u.kind, u.n, u.at, u.pod, u.delay, u.attempt, u.wake_at, u."by", u.class, u.text, h.tenant, h.definition
from {schema}.run_history h,
	unnest(h.event_steps, h.event_kinds, h.event_ns, h.event_ats, h.event_pods, h.event_delays, h.event_tries, h.event_wakes,
		h.event_bys, h.event_classes, h.event_texts)
		as u (step, kind, n, at, pod, delay, attempt, wake_at, "by", class, text)
where not h.plain
union all
select h.id, -1, u.kind, u.n, u.at, null, null, null, null, u."by", null, null, h.tenant, h.definition
from {schema}.run_history h,
	lateral (
		values (32::smallint, 1::bigint, h.created_at, nullif(h.origin, '')), (33::smallint, 2::bigint, h.started_at, null),
			(35::smallint, 3::bigint, h.finished_at, null)
	) as u (kind, n, at, "by")
where h.plain and h.slice = 0
union all
select h.id, h.first + u.nth::integer - 1, e.kind, e.n, e.at, e.pod, null, e.attempt, null, null, null, null, h.tenant, h.definition
from {schema}.run_history h,
	unnest(h.queued, h.started, h.finished, h.pods) with ordinality as u (queued, started, finished, pod, nth),
	lateral (
		values (1::smallint, 1::bigint, u.queued, null::bigint, null::integer), (2::smallint, 2::bigint, u.started, u.pod, 1),
			(3::smallint, 3::bigint, u.finished, null, null)
	) as e (kind, n, at, pod, attempt)
where h.plain;

-- Runs at work and in history are one list that indexes put in order: that needs two bare
-- selects, with the condition outside. The error and the output of a run are those of a
-- task; in history they are looked for in the first slice alone, which has 10,000 tasks:
-- to look for another one costs each row a search of all parts.
create view {schema}.run_list as
select r.id as run, d.name as workflow, r.tenant, {schema}.state_name(r.state) as state, r.key, r.labels, q.name as queue,
	r.created_at, r.started_at, r.finished_at, r.canceling, r.cancel_reason, nullif(r.origin, '') as origin, r.origin_run,
	f.name as failed_step,
	case when r.states is not null then r.classes[r.failed_step + 1] else (
		select t.class from {schema}.tasks t where t.run_id = r.id and t.step = r.failed_step
	) end as class,
	case when r.states is not null then r.errors[r.failed_step + 1] else (
		select t.error from {schema}.tasks t where t.run_id = r.id and t.step = r.failed_step
	) end as error,
	{schema}.json_of(r.input) as input_json, octet_length(r.input) as input_bytes,
	{schema}.json_of(case when r.states is not null then r.outputs[d.output + 1] else (
		select t.output from {schema}.tasks t where t.run_id = r.id and t.step = d.output
	) end) as output_json
from (
		select r.id, r.definition, r.queue, r.state, r.canceling, r.failed_step, r.created_at, r.started_at, r.finished_at, r.tenant,
			r.key, r.origin, r.origin_run, r.cancel_reason, r.labels, r.input, 0 as slice, null::smallint[] as states,
			null::text[] as classes, null::text[] as errors, null::bytea[] as outputs
		from {schema}.workflow_runs r
		union all
		select h.id, h.definition, h.queue, h.state, h.canceling, h.failed_step, h.created_at, h.started_at, h.finished_at, h.tenant,
			h.key, h.origin, h.origin_run, h.cancel_reason, h.labels, h.input, h.slice, h.states, h.classes, h.errors, h.outputs
		from {schema}.run_history h
	) r
	left join {schema}.workflow_definitions d on d.definition = r.definition
	left join {schema}.definition_steps f on f.definition = r.definition and f.step = r.failed_step
	left join {schema}.queues q on q.queue = r.queue
where r.slice = 0;

-- Attempts are counted when they end; traits 1 and 2 are sleeps, which have none.
create view {schema}.step_list as
select t.run_id as run, d.name as workflow, t.tenant, s.name as step, {schema}.state_name(t.state) as state,
	t.attempt + (t.state = 3 or t.state = 10 and t.traits & 3 = 0)::integer as attempt, t.lost as losses, q.name as queue,
	p.name as pod, t.class, t.error, t.queued_at, t.started_at,
	t.finished_at,
	(select w.wake_at from {schema}.durable_timers w where w.run_id = t.run_id and w.step = t.step and w.kind in (1, 2)
		order by w.kind limit 1) as wake_at,
	{schema}.json_of(t.output) as output_json, octet_length(t.output) as output_bytes
from {schema}.every_task t
	left join {schema}.workflow_definitions d on d.definition = t.definition
	left join {schema}.definition_steps s on s.definition = t.definition and s.step = t.step
	left join {schema}.queues q on q.queue = t.queue
	left join {schema}.pod_names p on p.pod = t.pod;

-- Without a step: an event of the run itself.
create view {schema}.event_list as
select e.run_id as run, d.name as workflow, e.tenant, s.name as step, e.n, {schema}.event_name(e.kind) as kind, e.at,
	p.name as pod, nullif(e.pod, 0) as pod_number, e.attempt,
	e.delay / 1000 * interval '1 microsecond' as delay, e.wake_at, nullif(e."by", '') as "by", e.class, e.text
from {schema}.every_event e
	left join {schema}.workflow_definitions d on d.definition = e.definition
	left join {schema}.definition_steps s on s.definition = e.definition and s.step = e.step
	left join {schema}.pod_names p on p.pod = e.pod;

create view {schema}.dead_letter_list as
select l.run_id::text || '/' || l.step::text as id, l.run_id as run, l.workflow, l.tenant, l.step_name as step,
	{schema}.reason_name(l.reason) as reason, l.class, l.error, l.attempts, l.lost as losses, q.name as queue, l.labels,
	l.created_at, l.started_at, l.died_at, l.requeues, l.requeued_at, l.requeued_as,
	{schema}.json_of(coalesce(
		(select r.input from {schema}.workflow_runs r where r.id = l.run_id),
		(select i.input from {schema}.dead_inputs i where i.run_id = l.run_id)
	)) as input_json
from {schema}.dead_letters l
	left join {schema}.queues q on q.queue = l.queue;
