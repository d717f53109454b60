-- record_small: record_fast for a few completions after which no task has to queue
-- up: whatever became ready is granted to this pod, because no other task waits. What
-- record_fast needs for many costs more to be set up than to be done for few.
-- Records what record_fast would, or answers nothing. inline_after and inline_until
-- are as in record_fast. No other call changes a task that is executed, or its children's
-- counts, without the lock of its run: so what few says holds for done.
-- Caller: record, after check_pod and lock_runs in the same transaction. Locks
-- tasks. Index: the primary keys, probed per row, as in record_fast.
with clock as materialized (select clock_timestamp() as now),
held as materialized (
	select cardinality(k.epochs) as n from {schema}.claims k where k.pod = @pod and k.claim = @claim
),
few as materialized (
	select d.run_id, d.step, d.epoch, d.output, d.ord, x.tid, x.children
	from unnest(@runs::uuid[], @steps::int[], @epochs::bigint[], @outputs::bytea[]) with ordinality as d (run_id, step, epoch, output, ord),
		{takes_fast_path}
	where x.state = 3 and x.epoch = d.epoch and x.pod = @pod
	for no key update of x
),
children as materialized (
	select told.run_id, told.step, told.ended, x.tid, x.queue, x.handler, x.pending - told.ended as rest, x.pending > told.ended as waiting
	from (
		select f.run_id, f.child >> 3 as step, count(*)::int as ended
		from (select run_id, unnest(children) as child from few) f
		group by 1, 2
		order by 1, 2
	) told,
		lateral (
			select k.ctid as tid, k.pending, k.queue, k.handler
			from {schema}.tasks k where k.run_id = told.run_id and k.step = told.step offset 0
		) x
),
ready as materialized (
	select count(*) as n, coalesce(bool_and(queue = @inline_queue::smallint and handler = any(@inline_handlers::int[])), true) as ours
	from children where not waiting
),
sure as materialized (
	select c.now, f.block, q.since
	from clock c,
		lateral (
			select case when c.now < @inline_until::timestamptz and c.now > @inline_until::timestamptz - interval '10 minutes'
				then @inline_after::bigint else 0 end as since offset 0
		) q,
		{schema}.frontiers f, ready
	where f.queue = @inline_queue::smallint and f.band = 0
		and exists (select from {schema}.pods p where p.id = @pod and not p.dead and p.expires_at > c.now)
		and (ready.n = 0 or ready.ours
			and ready.n <= least((select count(*) from few) + @inline_spare::int, @inline_limit::int - coalesce((select n from held), 0))
			and (
				select k.fair_id from {schema}.ready_queue k
				where k.queue = @inline_queue::smallint and k.band = 0 and k.fair_id >= q.since order by k.fair_id limit 1
			) is null)
),
done as (
	update {schema}.tasks t
	set state = 10, epoch = t.epoch + 1, output = d.output, finished_at = d.now
	from (select f.*, s.now from few f, sure s offset 0) d
	where t.ctid = d.tid and t.run_id is not distinct from d.run_id and t.step is not distinct from d.step
		and t.state = 3 and t.epoch = d.epoch and t.pod = @pod
	returning t.run_id, t.step, t.state, t.epoch, t.children, d.ord
),
moved as (
	update {schema}.tasks t
	set pending = t.pending - k.ended, flags = t.flags | 8,
		state = case when k.waiting then t.state else 3 end,
		epoch = t.epoch + case when k.waiting then 0 else 2 end,
		pod = case when k.waiting then t.pod else @pod end,
		queued_at = case when k.waiting then t.queued_at else k.now end,
		started_at = case when k.waiting then t.started_at else k.now end
	from (select k.*, s.now from children k, sure s offset 0) k
	where t.ctid = k.tid and t.run_id is not distinct from k.run_id and t.step is not distinct from k.step
	returning t.run_id, t.step, t.epoch, k.waiting, t.pending = k.rest as written
),
granted as materialized (
	select array_agg(run_id) as runs, array_agg(step) as steps, array_agg(epoch) as epochs
	from (select run_id, step, epoch from moved where not waiting order by run_id, step offset 0) m
),
claimed as (
	insert into {schema}.claims as c (pod, claim, runs, steps, epochs)
	select @pod, @claim, runs, steps, epochs from granted where runs is not null
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
		select m.run_id, m.step, m.epoch - 1 + e.nth, 1 + e.nth, case when e.nth = 1 then @pod end, case when e.nth = 1 then 1 end
		from moved m, (values (0), (1)) as e (nth) where not m.waiting
		union all
		select id, -1, events, 35, null, null from ended where state = 10
	) e
)
select s.now, exists (select from held),
	array(select ord::int from done), array(select id from ended where state = 10), array(select definition from ended where state = 10), g.runs, g.steps, g.epochs, s.block * 2097152,
	case when s.since > 0 then @inline_until::timestamptz
		else clock_timestamp() + least(interval '10 seconds', greatest(interval '250 milliseconds', 20 * (clock_timestamp() - s.now))) end
from sure s, granted g
where (
	select ln((
		(select count(*) from done where state = 10) = begun.n * (select count(*) from few)
		and (select count(*) from moved where written) = begun.n * (select count(*) from children)
		and coalesce((select tasks from claimed), 0) = case when g.runs is null then 0 else cardinality(g.runs) + coalesce((select n from held), 0) end
		and (select count(*) from ended where written) = (select count(distinct run_id) from done where cardinality(children) = 0)
	)::int)
	from (select count(*) as n from sure) begun
) is not null
