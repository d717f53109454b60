-- record_fast: successes without conditions that take the fast path
-- (lifecycle.TakesFastPath): ends tasks, tells their children, gives those that
-- became ready a place or grants them to this pod, ends runs, writes the events.
-- What is not this pod's, or needs a decision, is left alone and not answered.
-- Equal to lifecycle.Decide for these tasks; the contract and the differential
-- test hold it to that.
-- room_groups and rooms: how many tasks more the tenants with a limit may run.
-- inline_after: places below which no task stands in an inline queue, as far as
-- the caller knows, and inline_until: how long it may rely on that, unless the
-- clock was set back. Both are returned as they are now, for the queues that were
-- looked at: a look at all of a queue takes a twentieth of the time at most.
-- Caller: record, after check_pod and lock_runs in the same transaction.
-- Locks tasks, tenant_groups by (queue, group, lane).
-- Index: the primary keys, probed per row, whatever the statistics: lateral
-- probes with offset 0, updates by ctid and key. The keys are compared with "is
-- not distinct from", which no index answers: an equality would let a planner
-- that takes a table for empty walk its whole index instead. Handlers are
-- looked up in a subplan, which is hashed: a workflow of many steps has as many,
-- and all of its steps may be children of one. A queue without a frontier is
-- one that was not served: insert_frontiers is for the call that stores the next run.
-- What an update takes its rows from is one subquery (offset 0): of each part of
-- one that is taken apart every row is copied whole, outputs included, for a
-- recheck that the locks make needless.
with clock as materialized (select clock_timestamp() as now),
alive as materialized (
	select 1 from {schema}.pods p, clock where p.id = @pod and not p.dead and p.expires_at > clock.now
),
done as (
	update {schema}.tasks t
	set state = 10, epoch = t.epoch + 1, output = d.output, finished_at = d.now
	from (
		select d.run_id, d.step, d.epoch, d.output, d.progress, d.ord, r.group_id, x.tid, clock.now
		from clock,
			unnest(@runs::uuid[], @steps::int[], @epochs::bigint[], @outputs::bytea[], @progress::bytea[]) with ordinality
				as d (run_id, step, epoch, output, progress, ord),
			{takes_fast_path}
		where exists (select from alive)
		offset 0
	) d
	where t.ctid = d.tid and t.run_id is not distinct from d.run_id and t.step is not distinct from d.step
		and t.state = 3 and t.epoch = d.epoch and t.pod = @pod
	returning t.run_id, t.step, t.state, t.epoch, t.children, d.ord, d.group_id, d.progress, d.now
),
kept as (
	insert into {schema}.task_progress as p (run_id, step, progress)
	select run_id, step, progress from done where progress is not null order by 1, 2
	on conflict (run_id, step) do update set progress = excluded.progress
	returning 1
),
told as (
	select done.run_id, c >> 3 as step, count(*)::int as ended, min(done.group_id) as group_id
	from (select run_id, group_id, unnest(children) as c from done) done
	group by 1, 2
	order by 1, 2
),
children as materialized (
	select told.*, x.tid, x.queue, x.handler, x.pending - told.ended as rest, x.pending > told.ended as waiting
	from told,
		lateral (
			select k.ctid as tid, k.pending, k.queue, k.handler
			from {schema}.tasks k where k.run_id = told.run_id and k.step = told.step offset 0
		) x
),
-- The tenants at the head of the queues (lifecycle.InlineLook). A task that comes
-- takes a place behind the frontier, or is there already.
heads as materialized (
	select q.queue, q.until, q.since, h.places, least(h.places[1], coalesce(f.block, 0) * 2097152) as after
	from clock
		cross join lateral (
			select u.queue, u.until,
				case when clock.now < u.until and clock.now > u.until - interval '10 minutes' then u.after else 0 end as since
			from unnest(@inline_queues::smallint[], @inline_after::bigint[], @inline_until::timestamptz[]) u (queue, after, until)
		) q
		cross join lateral (
			select array_agg(k.fair_id order by k.fair_id) as places
			from (
				select k.fair_id from {schema}.ready_queue k
				where k.queue = q.queue and k.band = 0 and k.fair_id >= q.since order by k.fair_id limit 64
			) k
		) h
		left join {schema}.frontiers f on f.queue = q.queue and f.band = 0
	where @inline_limit::int > 0 and q.queue in (select c.queue from children c where not c.waiting)
),
-- The tenants that stand alone in their queue there.
calm as materialized (
	select c.queue, c.group_id
	from (select distinct queue, group_id from children where not waiting) c
		join heads h on h.queue = c.queue
	where not exists (select from unnest(h.places) p where p % 2097152 / 2 <> c.group_id)
),
judged as (
	select c.*,
		not c.waiting and (c.queue, c.group_id) in (select queue, group_id from calm)
			and c.handler in (select unnest(@inline_handlers::int[])) as eligible
	from children c
),
allowed as (
	select j.*, j.eligible and (
		cardinality(@room_groups::int[]) = 0
		or row_number() over (partition by j.eligible, j.group_id order by j.run_id, j.step)
			<= coalesce((@rooms::int[])[array_position(@room_groups::int[], j.group_id)], 0)
	) as allowed
	from judged j
),
before as materialized ( -- by this claim: a batch may be recorded in parts
	select cardinality(c.epochs) as granted from {schema}.claims c where c.pod = @pod and c.claim = @claim
),
ranked as (
	select a.*, a.allowed and row_number() over (partition by a.allowed order by a.run_id, a.step)
		<= least(@inline_limit::int - coalesce(b.granted, 0), (select count(*) from done) + @inline_spare::int) as granted
	from allowed a left join before b on true
),
-- What does not queue up sorts last, so that counter is the rank of (queue,
-- group) among those that do.
lined as materialized (
	select r.*,
		dense_rank() over (order by r.waiting or r.granted, r.queue, r.group_id) as counter,
		row_number() over (partition by r.waiting or r.granted, r.queue, r.group_id order by r.run_id, r.step) as nth,
		count(*) over (partition by r.waiting or r.granted, r.queue, r.group_id) as of
	from ranked r
),
blocks as (
	insert into {schema}.tenant_groups as g (queue, group_id, lane, block)
	select c.queue, c.group_id, 0, coalesce((select k.block from {schema}.frontiers k where k.queue = c.queue and k.band = 0), 0) + c.of
	from (select queue, group_id, max(of) as of from lined where not waiting and not granted group by 1, 2) c
	order by 1, 2
	on conflict (queue, group_id, lane) do update
	set block = excluded.block + coalesce(
		(select greatest(g.block, f.block) - f.block from {schema}.frontiers f where f.queue = g.queue and f.band = 0), g.block
	)
	returning g.queue, g.group_id, g.block
),
counters as materialized (
	select array_agg(block order by queue, group_id) as last from blocks
),
placed as (
	select l.*, 2 * l.group_id::bigint + 2097152 * (counters.last[l.counter] - l.of + l.nth) as fair_id
	from lined l, counters
),
moved as (
	update {schema}.tasks t
	set pending = t.pending - k.ended, flags = t.flags | 8,
		state = case when k.granted then 3 when k.waiting then t.state else 2 end,
		epoch = t.epoch + case when k.granted then 2 when k.waiting then 0 else 1 end,
		pod = case when k.granted then @pod else t.pod end,
		queued_at = case when k.waiting then t.queued_at else k.now end,
		started_at = case when k.granted then k.now else t.started_at end
	from (
		select k.tid, k.run_id, k.step, k.ended, k.rest, k.granted, k.waiting, k.fair_id, clock.now from placed k, clock offset 0
	) k
	where t.ctid = k.tid and t.run_id is not distinct from k.run_id and t.step is not distinct from k.step
	returning t.run_id, t.step, t.epoch, t.state, t.queue, t.handler, k.fair_id, t.pending = k.rest as written
),
enqueued as (
	insert into {schema}.ready_queue (queue, band, fair_id, run_id, step, handler, suspect)
	select queue, 0, fair_id, run_id, step, handler, false from moved where state = 2 order by 1, 3
	returning 1
),
claimed as (
	insert into {schema}.claims as c (pod, claim, runs, steps, epochs)
	select @pod, @claim, array_agg(run_id order by run_id, step), array_agg(step order by run_id, step),
		array_agg(epoch order by run_id, step)
	from moved where state = 3
	having count(*) > 0
	on conflict (pod, claim) do update
	set runs = c.runs || excluded.runs, steps = c.steps || excluded.steps, epochs = c.epochs || excluded.epochs
	returning cardinality(epochs) as tasks
),
ended as (
	{end_runs}
),
noted as (
	insert into {schema}.task_events (run_id, step, n, kind, at, pod, attempt)
	select e.run_id, e.step, e.n, e.kind, clock.now, e.pod, e.attempt
	from clock, (
		select run_id, step, epoch as n, 3 as kind, null::bigint as pod, null::int as attempt from done
		union all
		select run_id, step, case when state = 3 then epoch - 1 else epoch end, 1, null, null from moved where state in (2, 3)
		union all
		select run_id, step, epoch, 2, @pod, 1 from moved where state = 3
		union all
		select id, -1, events, 35, null, null from ended where state = 10
	) e
)
select clock.now, exists (select from {schema}.claims c where c.pod = @pod and c.claim = @claim),
	array(select ord::int from done), array(select id from ended where state = 10), array(select definition from ended where state = 10),
	array(select queue::int from moved where state = 2), g.runs, g.steps, g.epochs,
	array(select queue from heads order by queue), array(select after from heads order by queue),
	array(
		select case when h.since > 0 then h.until
			else clock_timestamp() + least(interval '10 seconds', greatest(interval '250 milliseconds', 20 * (clock_timestamp() - clock.now))) end
		from heads h order by h.queue
	)
from clock, (
	select array_agg(run_id order by run_id, step) as runs, array_agg(step order by run_id, step) as steps,
		array_agg(epoch order by run_id, step) as epochs
	from moved where state = 3
) g
where (
	select ln((
		(select count(*) from kept) = (select count(*) from done where progress is not null)
		and not exists (select from done where state <> 10)
		and (select count(*) from moved where written) = (select count(*) from children)
		and (select count(*) from enqueued) = (select count(*) from moved where state = 2)
		and coalesce((select tasks from claimed), 0) = (
			select case when count(*) > 0 then count(*) + coalesce((select granted from before), 0) else 0 end from moved where state = 3
		)
		and (select count(*) from ended where written) = (select count(distinct run_id) from done where cardinality(children) = 0)
	)::int)
) is not null
