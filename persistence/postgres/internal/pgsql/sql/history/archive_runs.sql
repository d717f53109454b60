-- archive_runs: moves ended runs with everything of theirs into run_history,
-- one row for each; a run with many tasks or much output gets several, so that
-- no row has more than 10,000 tasks or outputs of 16 MiB and one more. Dynamic tasks have
-- rows of their own, unless the run was canceled before it got others: the numbers of the tasks of a row leave none out,
-- and where those of a machine do, because tasks were removed, another row begins. Events that are
-- too many for one row, or have texts of more than 16 MiB, have rows of their own, with numbers below 0. Beside outputs
-- of more than 64 KiB their sizes are kept, so that these cost no look at those. The
-- events of a plain run follow from its tasks and are left to the end of their
-- span. Runs that are moved into one of the spans are counted, unless it is sealed, where
-- a trigger counts them, or a count of it has not come to them. los and his are intervals of ids that hold the runs: the events of the
-- others are read interval by interval. Returns how many runs were moved; what
-- another session has locked is left for the next time.
-- Caller: ArchiveRuns, behind the fence; the spans exist, and hash joins are
-- allowed. Locks workflow_runs by id, skip locked, then tasks: it may wait for a
-- claim that discards one, which waits for nothing; last dead_letters, where it
-- may wait for a requeue. Locks spans (share), so that none is counted meanwhile.
-- Index: the primary keys, probed per run; task_events_*_by_run, per interval.
with r as materialized (
	select k.*, d.class
	from (select distinct id from unnest(@runs::uuid[]) as z (id) order by id) z,
		lateral (
			select w.ctid as tid, w.* from {schema}.workflow_runs w where w.id = z.id and w.state >= 10 offset 0 for update skip locked
		) k,
		lateral (select w.class from {schema}.workflow_definitions w where w.definition = k.definition offset 0) d
),
judged as materialized (
	select r.id, r.state = 10 and r.events = 3 and not r.slow and not exists (
		select from {schema}.tasks k
		where k.run_id = r.id and not (k.state = 10 and k.epoch = 3 and k.attempt = 0 and k.lost = 0)
	) as plain,
		r.slow and exists (select from {schema}.tasks k where k.run_id = r.id and k.step = 0 and k.traits & 2048 > 0) as machine
	from r
),
told as materialized (select j.id from judged j where not j.plain),
trimmed as materialized (
	select m.*
	from judged j, lateral (select * from {schema}.machines k where k.run_id = j.id and k.base_epoch > 0 offset 0) m
	where j.machine
),
events as materialized (
	select e.run_id, e.part, max(e.part) over (partition by e.run_id) as parts, array_agg(e.step) as steps, array_agg(e.kind) as kinds, array_agg(e.n) as ns, array_agg(e.at) as ats,
		case when count(e.pod) > 0 then array_agg(e.pod) end as pods, case when count(e.delay) > 0 then array_agg(e.delay) end as delays,
		case when count(e.attempt) > 0 then array_agg(e.attempt) end as tries,
		case when count(e.wake_at) > 0 then array_agg(e.wake_at) end as wakes,
		case when count(e."by") > 0 then array_agg(e."by") end as bys, case when count(e.class) > 0 then array_agg(e.class) end as classes,
		case when count(e.text) > 0 then array_agg(e.text) end as texts
	from (
		select e.*, ((row_number() over w - 1) / 100000 + sum(coalesce(octet_length(e.text), 0)) over w / 16777216)::int as part
		from (
			select e.*
			from unnest(@los::uuid[], @his::uuid[]) as g (lo, hi),
				lateral (
					select * from {schema}.task_events k
					where k.run_id >= g.lo and k.run_id <= g.hi and exists (select from told) offset 0
				) e
			where (e.run_id in (select id from told)) is true
			union all
			select e.*
			from told, lateral (select * from {schema}.task_events_kept k where k.run_id = told.id offset 0) e
			union all
			select m.run_id, s.step, 15::smallint, s.n, m.base_at, null, null, null, null, null, null, null
			from trimmed m, lateral (values (0, m.base_epoch), (-1, m.base_events)) as s (step, n)
			where s.n > case s.step when 0 then 0 else 2 end
		) e
			left join trimmed m on m.run_id = e.run_id
		where m.run_id is null or e.kind = 15 or not {event_gone}
		window w as (partition by e.run_id order by e.step, e.n rows unbounded preceding)
		order by run_id, step, n
	) e
	group by 1, 2
),
moved as (
	insert into {schema}.run_history (id, slice, first, class, plain, finished_at, definition, group_id, remaining, events, queue, state,
		slow, canceling, failing, unhandled, cut, handler_made, failed_step, created_at, started_at, tenant, key, origin, origin_run,
		trace_context, cancel_reason, labels, input, states, flags, pendings, epochs, attempts, losts, pods, wakes, queued, started,
		finished, classes, errors, outputs, sizes, event_steps, event_kinds, event_ns, event_ats, event_pods, event_delays, event_tries,
		event_wakes, event_bys, event_classes, event_texts, dynamic_count, signals, dynamic_names,
		failed_class, failed_error, declared, owners, names, child_runs, parent_run, parent_step, depth, abandoned, maps, machine, machine_states, entries, inputs,
		own_traits, own_queues, own_sleeps, own_timeouts)
	select r.id, coalesce(s.slice, 0), coalesce(s.first, 0), r.class, j.plain, r.finished_at, r.definition, r.group_id, r.remaining,
		r.events, r.queue, r.state, r.slow, r.canceling, r.failing, r.unhandled, r.cut, r.handler_made, r.failed_step, r.created_at,
		r.started_at, r.tenant, r.key, r.origin, r.origin_run, r.trace_context, r.cancel_reason,
		case when coalesce(s.slice, 0) = 0 then r.labels end, case when coalesce(s.slice, 0) = 0 then r.input end,
		s.states, s.flags, s.pendings, s.epochs, s.attempts, s.losts, s.pods, s.wakes, s.queued, s.started, s.finished, s.classes,
		s.errors, s.outputs, s.sizes, e.steps, e.kinds, e.ns, e.ats, e.pods, e.delays, e.tries, e.wakes, e.bys, e.classes, e.texts,
		r.dynamic_count, r.signals, f.names, f.class, f.error, y.declared, y.owners, y.names,
		s.child_runs, r.parent_run, r.parent_step, r.depth, r.abandoned, g.maps, x.numbers, x.states, v.entries, v.inputs, v.traits,
		v.queues, v.sleeps, v.timeouts
	from r
		join judged j on j.id = r.id
		left join lateral (
			select k.slice, min(k.step) as first, array_agg(k.state) as states,
				case when bool_or(k.flags <> 0) then array_agg(k.flags) end as flags,
				case when bool_or(k.pending <> 0) then array_agg(k.pending) end as pendings, array_agg(k.epoch) as epochs,
				case when bool_or(k.attempt <> 0) then array_agg(k.attempt) end as attempts,
				case when bool_or(k.lost <> 0) then array_agg(k.lost) end as losts, array_agg(k.pod) as pods,
				case when count(k.wake_at) > 0 then array_agg(k.wake_at) end as wakes,
				case when count(k.queued_at) > 0 then array_agg(k.queued_at) end as queued,
				case when count(k.started_at) > 0 then array_agg(k.started_at) end as started, array_agg(k.finished_at) as finished,
				case when count(k.class) > 0 then array_agg(k.class) end as classes,
				case when count(k.error) > 0 then array_agg(k.error) end as errors,
				case when count(k.output) > 0 then array_agg(k.output) end as outputs,
				case when sum(octet_length(k.output)) > 65536 then array_agg(octet_length(k.output)) end as sizes,
				case when count(k.child) > 0 then array_agg(k.child) end as child_runs
			from (
				select k.*, (sum(coalesce(octet_length(k.output), 0)) over w - coalesce(octet_length(k.output), 0)) / 16777216
					+ (row_number() over w - 1) / 10000 + (k.declared is not null and first_value(k.declared) over w is null)::int
					+ case when j.machine then k.step - row_number() over w + 1 else 0 end as slice
				from {schema}.tasks k
				where k.run_id = r.id
				window w as (order by k.step rows unbounded preceding)
				order by slice, k.step
			) k
			group by 1
		) s on true
		left join lateral (
			select array_agg(k.declared order by k.step) as declared, array_agg(k.owner order by k.step) as owners,
				array_agg(k.name order by k.step) as names
			from {schema}.tasks k
			where r.dynamic_count > 0 and k.run_id = r.id and k.step >= s.first and k.step < s.first + cardinality(s.states)
			having count(k.declared) > 0
		) y on true
		left join lateral (
			select array_agg(k.name order by k.step) as names, max(k.class) filter (where k.step = r.failed_step) as class,
				max(k.error) filter (where k.step = r.failed_step) as error
			from {schema}.tasks k
			where r.dynamic_count > 0 and not j.machine and coalesce(s.slice, 0) = 0 and k.run_id = r.id and k.declared is not null
			having count(*) > 0
			union all -- of what was removed there is no name
			select array_agg(k.name order by n.nth), null, null
			from generate_series(1, r.dynamic_count) as n (nth)
				join {schema}.workflow_definitions d on d.definition = r.definition
				left join {schema}.tasks k on k.run_id = r.id and k.step = d.steps + n.nth
			where j.machine and coalesce(s.slice, 0) = 0
			having count(*) > 0
		) f on true
		left join lateral (
			select array_agg(array[k.step, k.at_once, k.allowed, k.items, k.items_left, k.next_item, k.open, k.failed] order by k.step) as maps
			from {schema}.maps k
			where r.dynamic_count > 0 and coalesce(s.slice, 0) = 0 and k.run_id = r.id
		) g on true
		left join lateral (
			select array_agg(k.entry order by k.step) as entries, array_agg(i.payload order by k.step) as inputs,
				array_agg(k.traits order by k.step) as traits, array_agg(k.queue order by k.step) as queues,
				array_agg(k.sleep order by k.step) as sleeps, array_agg(k.start_timeout order by k.step) as timeouts
			from {schema}.tasks k
				left join {schema}.map_items i on i.run_id = k.run_id and i.step = 0 and i.item = k.step and k.step > 0
			where j.machine and k.run_id = r.id and k.step >= s.first and k.step < s.first + cardinality(s.states)
			having count(*) > 0
		) v on true
		left join lateral (
			select array[k.taken, k.version, k.base, k.base_version, k.base_started] as numbers, array[k.state, k.base_state] as states
			from {schema}.machines k
			where j.machine and coalesce(s.slice, 0) = 0 and k.run_id = r.id
		) x on true
		left join events e on e.run_id = r.id and e.part = 0 and coalesce(s.slice, 0) = 0
	union all -- events that one row does not hold
	select r.id, -e.part, 0, r.class, false, r.finished_at, r.definition, r.group_id, r.remaining,
		r.events, r.queue, r.state, r.slow, r.canceling, r.failing, r.unhandled, r.cut, r.handler_made, null, r.created_at,
		r.started_at, r.tenant, null, null, null, null, null, null, null,
		null, null, null, null, null, null, null, null, null, null, null, null,
		null, null, null, e.steps, e.kinds, e.ns, e.ats, e.pods, e.delays, e.tries, e.wakes, e.bys, e.classes, e.texts,
		null, null, null, null, null, null, null, null,
		null, null, null, null, null, null, null, null, null, null, null, null, null, null
	from r join events e on e.run_id = r.id
	where e.part > 0
	returning slice, cardinality(states) as tasks
),
letters as (
	update {schema}.dead_letters l
	set history = k.history
	from (
		select x.tid, x.run_id, x.step, h.history
		from told
			join events e on e.run_id = told.id and e.part = 0,
			lateral (
				select k.ctid as tid, k.run_id, k.step
				from {schema}.dead_letters k where k.run_id = told.id order by k.step offset 0 for update
			) x,
			lateral (
				select jsonb_agg(to_jsonb(u)) as history
				from (
					select u.*
					from unnest(e.steps, e.kinds, e.ns, e.ats, e.pods, e.delays, e.tries, e.wakes, e.bys, e.classes, e.texts)
						as u (step, kind, n, at, pod, delay, attempt, wake_at, "by", class, text)
					where u.step = x.step
					union all
					select u.*
					from events p,
						unnest(p.steps, p.kinds, p.ns, p.ats, p.pods, p.delays, p.tries, p.wakes, p.bys, p.classes, p.texts)
							as u (step, kind, n, at, pod, delay, attempt, wake_at, "by", class, text)
					where e.parts > 0 and p.part > 0 and p.run_id = told.id and u.step = x.step
					order by n desc
					limit 100
				) u
			) h
	) k
	where l.ctid = k.tid and l.run_id is not distinct from k.run_id and l.step is not distinct from k.step
	returning l.run_id
),
inputs as (
	insert into {schema}.dead_inputs (run_id, input)
	select r.id, r.input from r where r.id in (select l.run_id from letters l)
	on conflict (run_id) do nothing
),
tasks as (
	delete from {schema}.tasks t
	using (select k.* from r, lateral (select t.ctid as tid, t.run_id, t.step from {schema}.tasks t where t.run_id = r.id offset 0) k) k
	where t.ctid = k.tid and t.run_id is not distinct from k.run_id and t.step is not distinct from k.step
	returning 1
),
progress as (
	delete from {schema}.task_progress p
	using (select k.* from r, lateral (select p.ctid as tid, p.run_id from {schema}.task_progress p where p.run_id = r.id offset 0) k) k
	where p.ctid = k.tid and p.run_id is not distinct from k.run_id
),
maps as (
	delete from {schema}.maps m
	using (
		select k.* from r, lateral (select m.ctid as tid, m.run_id from {schema}.maps m where r.dynamic_count > 0 and m.run_id = r.id offset 0) k
	) k
	where m.ctid = k.tid and m.run_id is not distinct from k.run_id
),
items as (
	delete from {schema}.map_items i
	using (
		select k.* from r, lateral (select i.ctid as tid, i.run_id from {schema}.map_items i where r.dynamic_count > 0 and i.run_id = r.id offset 0) k
	) k
	where i.ctid = k.tid and i.run_id is not distinct from k.run_id
),
machines as (
	delete from {schema}.machines m
	using (
		select k.* from judged j, lateral (select m.ctid as tid, m.run_id from {schema}.machines m where j.machine and m.run_id = j.id offset 0) k
	) k
	where m.ctid = k.tid and m.run_id is not distinct from k.run_id
),
timers as (
	delete from {schema}.durable_timers t
	using (select k.* from r, lateral (select t.ctid as tid, t.run_id from {schema}.durable_timers t where t.run_id = r.id offset 0) k) k
	where t.ctid = k.tid and t.run_id is not distinct from k.run_id
),
kept as (
	delete from {schema}.task_events_kept e
	using (select k.* from r, lateral (select e.ctid as tid, e.run_id from {schema}.task_events_kept e where e.run_id = r.id offset 0) k) k
	where e.ctid = k.tid and e.run_id is not distinct from k.run_id
),
strays as (
	delete from {schema}.task_events_default e
	using (
		select k.* from r, lateral (select e.ctid as tid, e.run_id from {schema}.task_events_default e where e.run_id = r.id offset 0) k
	) k
	where e.ctid = k.tid and e.run_id is not distinct from k.run_id
),
keyed as (
	update {schema}.spans s
	set keyed = true
	from (select distinct s.span
		from r, {schema}.spans s
		where (r.key is not null or r.signals > 0) and s.class = r.class and r.finished_at >= s.since and r.finished_at < s.until and not s.keyed) k
	where s.span = k.span
),
counting as materialized (
	select s.span, s.class, s.since, s.until, s.counted_to
	from {schema}.spans s
	where s.span = any(@spans::int[]) and s.lowest is null and s.counted_to is not null
	for share
),
counted as (
	insert into {schema}.run_count_deltas (span, hour, tenant, definition, state, runs)
	select c.span, date_trunc('hour', r.finished_at, 'UTC'), r.tenant, r.definition, r.state, count(*)
	from r join counting c on r.class = c.class and r.finished_at >= c.since and r.finished_at < c.until and r.id <= c.counted_to
	group by 1, 2, 3, 4, 5
),
marked as (
	update {schema}.archived_up_to a set id = r.id from (select id from r order by id desc limit 1) r where a.id < r.id
),
gone as (
	delete from {schema}.workflow_runs w using r where w.ctid = r.tid and w.id is not distinct from r.id returning 1
)
select count(*)::int from gone
having ln((
	count(*) = (select count(*) from r) and count(*) = (select count(*) from moved where slice = 0)
	and (select coalesce(sum(tasks), 0) from moved) = (select count(*) from tasks)
)::int) is not null
