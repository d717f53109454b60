-- Dynamic tasks: tasks that the graph of their run does not have, made while it is under way. Their
-- numbers begin behind that of the failure handler, which is left out where there is none.
-- Nothing makes them yet. Pods of the version before keep working; they know no such tasks.
-- Takes tasks, workflow_runs, dead_letters, and run_history with its spans exclusively for an
-- instant: columns without a default rewrite no row.

-- Null: the task is of the graph, or the failure handler's.
alter table {schema}.tasks
	add column declared integer, -- the step whose function it executes
	add column owner integer, -- the step of the task that asked for it
	add column name text collate "C";

alter table {schema}.workflow_runs add column dynamic_count integer; -- null: none

-- Dynamic tasks are in slices of their own, so that the numbers of a slice leave none out. What
-- lists of runs and events show of them is in the first slice, too: no view looks for another.
alter table {schema}.run_history
	add column dynamic_count integer,
	add column dynamic_names text[] collate "C", -- of all, in the first slice
	add column failed_class text, -- if the first unhandled failure is one of them, in the first slice
	add column failed_error text,
	add column declared integer[],
	add column owners integer[],
	add column names text[] collate "C";

alter table {schema}.dead_letters add column declared integer; -- null: step

-- As before, with how many dynamic tasks the run has made.
create or replace view {schema}.every_run as
select
	r.id, r.definition, r.group_id, r.remaining, r.events, r.queue, r.state, r.slow, r.canceling, r.failing, r.unhandled,
	r.cut, r.handler_made, r.failed_step, r.created_at, r.started_at, r.finished_at, r.tenant, r.key, r.origin,
	r.origin_run, r.trace_context, r.cancel_reason, r.labels, r.input, r.dynamic_count
from {schema}.workflow_runs r
union all
select
	h.id, h.definition, h.group_id, h.remaining, h.events, h.queue, h.state, h.slow, h.canceling, h.failing, h.unhandled,
	h.cut, h.handler_made, h.failed_step, h.created_at, h.started_at, h.finished_at, h.tenant, h.key, h.origin,
	h.origin_run, h.trace_context, h.cancel_reason, h.labels, h.input, h.dynamic_count
from {schema}.run_history h
where h.slice = 0;

-- As before, with the step, the owner and the name of a dynamic task.
create or replace view {schema}.every_task as
select t.run_id, t.step, t.handler, t.epoch, t.pod, t.pending, t.parents, t.attempt, t.lost, t.queue, t.state, t.traits, t.flags,
	t.children, t.sleep, t.start_timeout, t.wake_at, t.queued_at, t.started_at, t.finished_at, t.class, t.error, t.output,
	r.tenant, r.definition, t.declared, t.owner, t.name
from {schema}.tasks t
	left join {schema}.workflow_runs r on r.id = t.run_id
union all
select h.id, h.first + u.nth::integer - 1, s.handler, u.epoch, u.pod, coalesce(u.pending, 0), s.pending, coalesce(u.attempt, 0), coalesce(u.lost, 0),
	coalesce(s.queue, h.queue), u.state, s.traits, coalesce(u.flags, 0::smallint),
	case when u.declared is null then s.children else '{}' end, nullif(s.sleep, 0),
	nullif(s.start_timeout, 0), u.wake_at, u.queued_at, u.started_at, u.finished_at, u.class, u.error, u.output,
	h.tenant, h.definition, u.declared, u.owner, u.name
from {schema}.run_history h,
	unnest(h.states, h.flags, h.pendings, h.epochs, h.attempts, h.losts, h.pods, h.wakes, h.queued, h.started, h.finished,
		h.classes, h.errors, h.outputs, h.declared, h.owners, h.names)
		with ordinality as u (state, flags, pending, epoch, attempt, lost, pod, wake_at, queued_at, started_at, finished_at, class, error, output, declared, owner, name, nth),
	{schema}.definition_steps s
where s.definition = h.definition and s.step = coalesce(u.declared, h.first + u.nth - 1);

-- As before, with the names of all dynamic tasks of the run, in order.
create or replace view {schema}.every_event as
select e.run_id, e.step, e.kind, e.n, e.at, e.pod, e.delay, e.attempt, e.wake_at, e."by", e.class, e.text, r.tenant, r.definition,
	n.names as dynamic_names
from {schema}.workflow_runs r
	left join lateral (
		select array_agg(t.name order by t.step) as names
		from {schema}.tasks t
		where r.dynamic_count > 0 and t.run_id = r.id and t.name is not null
	) n on true,
	{schema}.task_events e -- those of archived runs stay there for a while
where e.run_id = r.id
union all
select e.run_id, e.step, e.kind, e.n, e.at, e.pod, e.delay, e.attempt, e.wake_at, e."by", e.class, e.text, r.tenant, r.definition,
	n.names
from {schema}.task_events_kept e
	left join {schema}.workflow_runs r on r.id = e.run_id
	left join lateral (
		select array_agg(t.name order by t.step) as names
		from {schema}.tasks t
		where r.dynamic_count > 0 and t.run_id = r.id and t.name is not null
	) n on true
union all
select h.id, u.step, u.kind, u.n, u.at, u.pod, u.delay, u.attempt, u.wake_at, u."by", u.class, u.text, h.tenant, h.definition, h.dynamic_names
from {schema}.run_history h,
	unnest(h.event_steps, h.event_kinds, h.event_ns, h.event_ats, h.event_pods, h.event_delays, h.event_tries, h.event_wakes,
		h.event_bys, h.event_classes, h.event_texts)
		as u (step, kind, n, at, pod, delay, attempt, wake_at, "by", class, text)
where not h.plain
union all
select h.id, -1, u.kind, u.n, u.at, null, null, null, null, u."by", null, null, h.tenant, h.definition, null
from {schema}.run_history h,
	lateral (
		values (32::smallint, 1::bigint, h.created_at, nullif(h.origin, '')), (33::smallint, 2::bigint, h.started_at, null),
			(35::smallint, 3::bigint, h.finished_at, null)
	) as u (kind, n, at, "by")
where h.plain and h.slice = 0
union all
select h.id, h.first + u.nth::integer - 1, e.kind, e.n, e.at, e.pod, null, e.attempt, null, null, null, null, h.tenant, h.definition, null
from {schema}.run_history h,
	unnest(h.queued, h.started, h.finished, h.pods) with ordinality as u (queued, started, finished, pod, nth),
	lateral (
		values (1::smallint, 1::bigint, u.queued, null::bigint, null::integer), (2::smallint, 2::bigint, u.started, u.pod, 1),
			(3::smallint, 3::bigint, u.finished, null, null)
	) as e (kind, n, at, pod, attempt)
where h.plain;

-- As before, with the names of dynamic tasks.
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
	) end) as output_json
from (
		select r.id, r.definition, r.queue, r.state, r.canceling, r.failed_step, r.created_at, r.started_at, r.finished_at, r.tenant,
			r.key, r.origin, r.origin_run, r.cancel_reason, r.labels, r.input, 0 as slice, null::smallint[] as states,
			null::text[] as classes, null::text[] as errors, null::bytea[] as outputs, null::text[] as dynamic_names,
			null::text as failed_class, null::text as failed_error
		from {schema}.workflow_runs r
		union all
		select h.id, h.definition, h.queue, h.state, h.canceling, h.failed_step, h.created_at, h.started_at, h.finished_at, h.tenant,
			h.key, h.origin, h.origin_run, h.cancel_reason, h.labels, h.input, h.slice, h.states, h.classes, h.errors, h.outputs,
			h.dynamic_names, h.failed_class, h.failed_error
		from {schema}.run_history h
	) r
	left join {schema}.workflow_definitions d on d.definition = r.definition
	left join {schema}.definition_steps f on f.definition = r.definition and f.step = r.failed_step
	left join {schema}.queues q on q.queue = r.queue
where r.slice = 0;

create or replace view {schema}.step_list as
select t.run_id as run, d.name as workflow, t.tenant, coalesce(t.name, s.name) as step, {schema}.state_name(t.state) as state,
	t.attempt + (t.state = 3 or t.state = 10 and t.traits & 3 = 0)::integer as attempt, t.lost as losses, q.name as queue,
	p.name as pod, t.class, t.error, t.queued_at, t.started_at,
	t.finished_at,
	(select w.wake_at from {schema}.durable_timers w where w.run_id = t.run_id and w.step = t.step and w.kind in (1, 2)
		order by w.kind limit 1) as wake_at,
	{schema}.json_of(t.output) as output_json, octet_length(t.output) as output_bytes
from {schema}.every_task t
	left join {schema}.workflow_definitions d on d.definition = t.definition
	left join {schema}.definition_steps s on s.definition = t.definition and s.step = coalesce(t.declared, t.step)
	left join {schema}.queues q on q.queue = t.queue
	left join {schema}.pod_names p on p.pod = t.pod;

create or replace view {schema}.event_list as
select e.run_id as run, d.name as workflow, e.tenant, coalesce(s.name, e.dynamic_names[e.step - d.steps]) as step, e.n, {schema}.event_name(e.kind) as kind, e.at,
	p.name as pod, nullif(e.pod, 0) as pod_number, e.attempt,
	e.delay / 1000 * interval '1 microsecond' as delay, e.wake_at, nullif(e."by", '') as "by", e.class, e.text
from {schema}.every_event e
	left join {schema}.workflow_definitions d on d.definition = e.definition
	left join {schema}.definition_steps s on s.definition = e.definition and s.step = e.step
	left join {schema}.pod_names p on p.pod = e.pod;

-- As before: a step that failed may be a dynamic task.
create or replace function {schema}.history_walk(of_tenant text, before uuid, least_run uuid, states smallint[], labels jsonb, definitions integer[],
	of_key text, of_origin text, of_class text, of_step text, most integer, piece integer, out page uuid[], out searched uuid)
language plpgsql stable as $walk$
declare
	spans_max constant integer := 16;
	all_of_it constant uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
	failures  constant boolean := pg_catalog.cardinality(states) > 0 and states <@ '{11, 13}' or of_class is not null or of_step is not null;
	fields    constant text := 'h.id, h.state, h.labels, h.definition, h.key, h.origin, h.failed_step, h.states, h.classes';
	source    constant text := ' from {schema}.run_history h where h.class = $1 and h.finished_at >= $2 and h.finished_at < $3 and h.slice = 0'
		|| case when failures then ' and h.state in (11, 13)' else '' end;
	latest    constant text := case when of_tenant is null then ' and h.id < $4 and h.id >= $5 order by h.id desc' else
		' and h.tenant = $6 and pg_catalog.uuid_send(h.id) < pg_catalog.uuid_send($4) and pg_catalog.uuid_send(h.id) >= pg_catalog.uuid_send($5)'
		|| ' order by h.tenant desc, pg_catalog.uuid_send(h.id) desc' end;
	matches   text := 'true';
	recent    integer[] := array(select distinct d.span from {schema}.run_count_deltas d); -- spans of which the counts are not all
	edge      uuid := least_run; -- what is below it is not searched
	part      record;
	looked    integer := 0; -- spans
	walked    integer := 0; -- rows
	sparse    boolean := false; -- a piece had less than a page
	by_labels boolean;
	by_both   boolean;
	low       uuid; -- of the span, down to where it was searched; null: all of it
	more      uuid[];
	hits      integer;
	above     bytea;
begin
	page := '{}';
	if pg_catalog.cardinality(states) > 0 then
		matches := matches || ' and z.state = any($7)';
	end if;
	if labels is not null then
		matches := matches || ' and z.labels @> $8';
	end if;
	if definitions is not null then
		matches := matches || ' and z.definition = any($9)';
	end if;
	if of_key is not null then
		matches := matches || ' and z.key = $10';
	end if;
	if of_origin is not null then
		matches := matches || ' and z.origin = $11';
	end if;
	if of_class is not null then
		matches := matches || $sql$ and case when z.failed_step < pg_catalog.cardinality(z.states) then z.classes[z.failed_step + 1] else (
			select k.classes[z.failed_step - k.first + 1] from {schema}.run_history k
			where k.class = $1 and k.finished_at >= $2 and k.finished_at < $3 and k.id = z.id and k.slice > 0 and z.failed_step >= k.first
				and z.failed_step < k.first + pg_catalog.cardinality(k.states)
		) end = $12$sql$;
	end if;
	if of_step is not null then
		matches := matches || $sql$ and (exists (
			select from (
				select k.name from {schema}.definition_steps k where k.definition = z.definition and k.step = z.failed_step offset 0
			) k where k.name = $13
		) or z.failed_step >= pg_catalog.cardinality(z.states) and exists (
			select from {schema}.run_history k
			where k.class = $1 and k.finished_at >= $2 and k.finished_at < $3 and k.id = z.id and k.slice > 0 and z.failed_step >= k.first
				and z.failed_step < k.first + pg_catalog.cardinality(k.states) and k.names[z.failed_step - k.first + 1] = $13
		))$sql$;
	end if;

	for part in
		select s.span, s.class, s.since, s.until, s.highest, s.labeled, s.counted_to
		from {schema}.spans s
		where s.class is not null and (s.lowest is null or s.lowest < before and s.highest >= least_run)
		order by s.highest desc nulls first
	loop
		exit when part.highest < edge;
		continue when part.counted_to = all_of_it and part.span <> all(recent) and not exists (
			select from {schema}.run_counts c
			where c.tenant = coalesce(of_tenant, '') and c.day >= pg_catalog.date_trunc('day', part.since, 'UTC') and c.day < part.until
				and c.span = part.span and (definitions is null or c.definition = any(definitions))
				and (pg_catalog.cardinality(states) = 0 or c.state = any(states)) and (not failures or c.state in (11, 13))
		);
		if (looked >= spans_max or walked >= piece) and part.highest < before then
			above := pg_catalog.uuid_send(part.highest); -- and one more: that of the span is not searched
			for i in reverse 15..0 loop
				above := pg_catalog.set_byte(above, i, (pg_catalog.get_byte(above, i) + 1) % 256);
				exit when pg_catalog.get_byte(above, i) > 0;
			end loop;
			if pg_catalog.encode(above, 'hex')::uuid < before then -- or no call would come further
				edge := greatest(edge, pg_catalog.encode(above, 'hex')::uuid);
				exit;
			end if;
		end if;
		looked := looked + 1;
		low := before;
		by_both := labels is not null and part.labeled;
		by_labels := by_both and sparse;
		loop
			if by_labels then
				-- Only the index of labels will do then, which gives runs in no order.
				perform pg_catalog.set_config('enable_indexscan', 'off', true);
				execute 'select pg_catalog.count(*), pg_catalog.array_agg(z.id) filter (where ' || matches || ') from (select ' || fields || source
					|| ' and h.labels is not null and h.labels @> $8 and h.id < $4 and h.id >= $5'
					|| case when of_tenant is null then '' else ' and h.tenant = $6' end || ' limit $14 + 1) z' into hits, more
				using part.class, part.since, part.until, low, edge, of_tenant, states, labels, definitions, of_key, of_origin, of_class,
					of_step, piece;
				perform pg_catalog.set_config('enable_indexscan', 'on', true);
				by_both := false;
				if hits <= piece then
					page := page || more;
					low := null;
					exit;
				end if;
				exit when low < before;
			else
				-- A page that is not full was searched down to the last row of the piece. One
				-- statement: to plan it costs more than to run it.
				execute 'select m.more, w.hits, w.low from (select array(select z.id from (select ' || fields || source || latest
					|| ' limit $14) z where ' || matches || ' limit $15) as more offset 0) m, lateral ('
					|| 'select pg_catalog.count(*) as hits, (pg_catalog.array_agg(z.id))[$14] as low from (select h.id' || source
					|| ' and pg_catalog.cardinality(m.more) < $15' || latest || ' limit $14) z) w' into more, hits, low
				using part.class, part.since, part.until, before, edge, of_tenant, states, labels, definitions, of_key, of_origin, of_class,
					of_step, piece, most;
				page := page || more;
				walked := walked + hits;
				sparse := sparse or low is not null;
				exit when low is null or not by_both;
			end if;
			by_labels := not by_labels;
		end loop;
		edge := greatest(edge, low);
		page := array(select z.id from pg_catalog.unnest(page) z (id) where z.id >= edge order by z.id desc limit most);
		if pg_catalog.cardinality(page) = most then
			edge := greatest(edge, page[most]);
		end if;
	end loop;
	page := array(select z.id from pg_catalog.unnest(page) z (id) where z.id >= edge order by z.id desc limit most);
	if edge > least_run then
		searched := edge;
	end if;
end
$walk$;
