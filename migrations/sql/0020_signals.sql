-- Signals: payloads that are sent to a run, for a step of it that waits for them. Nothing sends
-- them yet. Pods of the version before keep working: they know neither such steps nor the rows
-- of the intake that ask for a delivery, of which there are none as long as they live.
-- Takes workflow_runs, intake, definition_steps, and run_history with its spans exclusively for
-- an instant: columns without a default rewrite no row, and the intake is small.

-- A signal is numbered when it is delivered, in the order of seq. Half of each page is kept
-- free, so that the updates that do so touch no index.
create table {schema}.inbox (
	run_id   uuid not null,
	id       text collate "C" not null,
	seq      bigint generated always as identity,
	n        bigint, -- null: it is not delivered
	name     text collate "C" not null,
	at       timestamptz not null,
	taken_by integer, -- the step that has taken it; null: none
	payload  bytea not null,
	primary key (run_id, id)
) with (fillfactor = 50);

-- Null: a run waits for its tasks. True: the signals of a run wait for their delivery.
alter table {schema}.intake add column signal boolean;

create index intake_signals on {schema}.intake (id) where signal;

alter table {schema}.workflow_runs add column signals bigint; -- how many were delivered; null: none
alter table {schema}.run_history add column signals bigint;

alter table {schema}.definition_steps add column signal text collate "C"; -- that the step waits for

-- As before, with how many signals were delivered.
create or replace view {schema}.every_run as
select
	r.id, r.definition, r.group_id, r.remaining, r.events, r.queue, r.state, r.slow, r.canceling, r.failing, r.unhandled,
	r.cut, r.handler_made, r.failed_step, r.created_at, r.started_at, r.finished_at, r.tenant, r.key, r.origin,
	r.origin_run, r.trace_context, r.cancel_reason, r.labels, r.input, r.dynamic_count, r.signals
from {schema}.workflow_runs r
union all
select
	h.id, h.definition, h.group_id, h.remaining, h.events, h.queue, h.state, h.slow, h.canceling, h.failing, h.unhandled,
	h.cut, h.handler_made, h.failed_step, h.created_at, h.started_at, h.finished_at, h.tenant, h.key, h.origin,
	h.origin_run, h.trace_context, h.cancel_reason, h.labels, h.input, h.dynamic_count, h.signals
from {schema}.run_history h
where h.slice = 0;

-- As before, with the two kinds of events of signals.
create or replace function {schema}.event_name(kind smallint) returns text language sql immutable parallel safe
return case kind
	when 1 then 'queued' when 2 then 'started' when 3 then 'completed' when 4 then 'failed' when 5 then 'retrying' when 6 then 'timed_out'
	when 7 then 'lost' when 8 then 'released' when 9 then 'skipped' when 10 then 'canceled' when 11 then 'sleeping' when 12 then 'woken'
	when 16 then 'waiting'
	when 32 then 'run_created' when 33 then 'run_started' when 34 then 'cancel_requested' when 35 then 'run_completed'
	when 36 then 'run_failed' when 37 then 'run_canceled' when 38 then 'signaled'
	else 'unknown' end;

-- As before, with when the longest wait for a signal is over.
create or replace view {schema}.step_list as
select t.run_id as run, d.name as workflow, t.tenant, coalesce(t.name, s.name) as step, {schema}.state_name(t.state) as state,
	t.attempt + (t.state = 3 or t.state = 10 and t.traits & 3 = 0 and t.traits & 160 <> 32)::integer as attempt, t.lost as losses, q.name as queue,
	p.name as pod, t.class, t.error, t.queued_at, t.started_at,
	t.finished_at,
	(select w.wake_at from {schema}.durable_timers w where w.run_id = t.run_id and w.step = t.step and w.kind in (1, 2, 7)
		order by w.kind limit 1) as wake_at,
	{schema}.json_of(t.output) as output_json, octet_length(t.output) as output_bytes
from {schema}.every_task t
	left join {schema}.workflow_definitions d on d.definition = t.definition
	left join {schema}.definition_steps s on s.definition = t.definition and s.step = coalesce(t.declared, t.step)
	left join {schema}.queues q on q.queue = t.queue
	left join {schema}.pod_names p on p.pod = t.pod;

-- Signals with names where tables have numbers: "waiting" is what no step has taken yet.
create view {schema}.signal_list as
select i.run_id as run, d.name as workflow, r.tenant, i.name, i.id, i.at as sent_at,
	case when i.n is null then 'undelivered' when i.taken_by is null then 'waiting' else 'taken' end as state, s.name as step,
	{schema}.json_of(i.payload) as payload_json, octet_length(i.payload) as payload_bytes
from {schema}.inbox i
	left join {schema}.every_run r on r.id = i.run_id
	left join {schema}.workflow_definitions d on d.definition = r.definition
	left join {schema}.definition_steps s on s.definition = r.definition and s.step = i.taken_by;
