-- keep_spawned: gives a new run what the machine of an ended one has started and needs there
-- (lifecycle.ResumeMachine): steps, with the numbers of the ends that the machine has not handled, 0
-- of what begins again. Each keeps its number, its name and its input. Flag 16 is FlagKept, trait
-- 4096 that of what machines start. Of a run in history the program says what executes it.
-- Caller: RequeueDeadLetter, which has submitted the run in this transaction. Returns how many
-- rows of runs and of tasks it wrote. Index: tasks_pkey and map_items_pkey, or that of a span of
-- run_history; workflow_runs_pkey.
{live_or_old},
d as materialized (select * from unnest(@steps::int[], @entries::bigint[]) as d (step, entry)),
found as materialized (
	select d.step, d.entry, k.handler, k.queue, k.traits, k.sleep, k.start_timeout, k.wake_at, k.output, k.declared, k.owner, k.name,
		(select i.payload from {schema}.map_items i where i.run_id = live.id and i.step = 0 and i.item = d.step) as input
	from live, d, lateral (select * from {schema}.tasks k where k.run_id = live.id and k.step = d.step offset 0) k
	union all
	select d.step, d.entry, coalesce(s.handler, 0), coalesce(u.queue, s.queue, h.queue), coalesce(u.traits, s.traits),
		case when u.traits is null then nullif(s.sleep, 0) else u.sleep end,
		case when u.traits is null then nullif(s.start_timeout, 0) else u.timeout end, u.wake_at, u.output, u.declared, u.owner, u.name, u.input
	from old h
		cross join unnest(h.declared, h.owners, h.names, h.wakes, h.outputs, h.inputs, h.own_traits, h.own_queues, h.own_sleeps, h.own_timeouts)
			with ordinality as u (declared, owner, name, wake_at, output, input, traits, queue, sleep, timeout, nth)
		join d on d.step = h.first + u.nth::int - 1
		left join lateral (
			select k.* from {schema}.definition_steps k
			where k.definition = h.definition and k.name = split_part(u.name, '#', 1) and k.traits & 4096 > 0 limit 1
		) s on true
),
made as (
	insert into {schema}.tasks (run_id, step, handler, queue, state, traits, flags, pending, parents, epoch, children, sleep, start_timeout,
		wake_at, finished_at, output, declared, owner, name, entry)
	select @new::uuid, f.step, f.handler, f.queue, case when f.entry > 0 then 10 else 1 end, f.traits,
		case when f.entry > 0 then 16 else 0 end, 0, 0, case when f.entry > 0 then 1 else 0 end, '{}', f.sleep, f.start_timeout, f.wake_at,
		case when f.entry > 0 then @now::timestamptz end, case when f.entry > 0 then f.output end, f.declared, f.owner, f.name,
		nullif(f.entry, 0)
	from found f
	returning step, state
),
inputs as (
	insert into {schema}.map_items (run_id, step, item, payload)
	select @new::uuid, 0, f.step, f.input from found f where f.input is not null
),
noted as (
	insert into {schema}.task_events (run_id, step, n, kind, at)
	select @new::uuid, m.step, 1, 3, @now::timestamptz from made m where m.state = 10
),
counted as materialized (select count(*)::int as n, (count(*) filter (where m.state = 1))::int as again from made m),
r as (
	update {schema}.workflow_runs r
	set dynamic_count = (select k.dynamic_count from live k union all select h.dynamic_count from old h where h.slice = 0),
		signals = nullif(@signals::bigint, 0), remaining = r.remaining + c.again, slow = r.slow or c.again > 0
	from counted c
	where r.id = @new::uuid
	returning c.n
)
select count(*)::int + coalesce(sum(r.n), 0)::int from r
