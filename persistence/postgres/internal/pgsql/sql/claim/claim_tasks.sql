-- claim_tasks: grants ready tasks of one queue in the order of fair ids, at
-- most one suspect. What is locked is passed over. Queue rows of
-- tasks that are no longer queued are removed. A claim that exists grants
-- nothing more. only, if given, are the places that may be granted, from after to
-- until. Returns a row
-- per grant with all that the attempt needs, at least one, and how many places were
-- passed over because they are locked.
-- Caller: claimer. Locks pods (key share), ready_queue, tasks and frontiers,
-- all skip locked: it waits for nothing. Index: ready_queue_pkey for the order,
-- the primary keys probed per task.
with clock as materialized (select clock_timestamp() as now),
alive as materialized (
	select 1 from {schema}.pods p, clock
	where p.id = @pod and not p.dead and p.expires_at > clock.now for key share of p skip locked
),
known as materialized (select 1 from {schema}.claims c where c.pod = @pod and c.claim = @claim),
usual as materialized (
	select q.ctid as tid, q.fair_id, q.run_id, q.step, false as suspect
	from {schema}.ready_queue q
	where q.queue = @queue::smallint and q.band = 0 and q.fair_id >= @after::bigint and q.fair_id <= @until::bigint
		and q.handler = any(@handlers::int[]) and not q.suspect
		and (@only::bigint[] is null or q.fair_id = any(@only::bigint[]))
		and exists (select from alive) and not exists (select from known)
	order by q.fair_id
	limit @limit::int
	for update skip locked
),
-- A few, because some may be of tasks that are no longer queued; none beyond
-- the last of the usual, so that this is no walk through the queue.
suspects as materialized (
	select q.ctid as tid, q.fair_id, q.run_id, q.step, true
	from {schema}.ready_queue q
	where @suspects::bool and q.queue = @queue::smallint and q.band = 0 and q.fair_id >= @after::bigint and q.fair_id <= @until::bigint
		and q.fair_id <= (
			select case when count(*) < @limit::int then 9223372036854775807 else max(u.fair_id) end from usual u
		)
		and q.handler = any(@handlers::int[]) and q.suspect
		and (@only::bigint[] is null or q.fair_id = any(@only::bigint[]))
		and exists (select from alive) and not exists (select from known)
	order by q.fair_id
	limit 8
	for update skip locked
),
-- A task that is nowhere was canceled, and is archived by now.
held as materialized (
	select c.*, t.tid as task, coalesce(t.state, 13) as state
	from (select * from usual union all select * from suspects order by fair_id) c
		left join lateral (
			select k.ctid as tid, k.state
			from {schema}.tasks k where k.run_id = c.run_id and k.step = c.step offset 0 for no key update skip locked
		) t on true
	where t.tid is not null
		or (select count(*) from (select from {schema}.tasks k where k.run_id = c.run_id and k.step = c.step offset 0) k) = 0
),
locked as materialized (
	select h.*
	from (
		select h.*, count(*) filter (where h.suspect and h.state = 2)
			over (order by h.fair_id rows between unbounded preceding and 1 preceding) as earlier
		from held h
	) h
	where not h.suspect or h.earlier = 0
	order by h.fair_id
	limit @limit::int
),
granted as (
	update {schema}.tasks t
	set state = 3, epoch = t.epoch + 1, pod = @pod, started_at = clock.now
	from locked l, clock
	where t.ctid = l.task and t.run_id is not distinct from l.run_id and t.step is not distinct from l.step
		and l.state = 2 and t.state = 2
	returning t.run_id, t.step, t.state, t.epoch, t.attempt, t.lost, t.handler, t.queued_at, t.started_at, t.parents, t.traits, t.flags,
		l.fair_id, l.tid
),
gone as (
	delete from {schema}.ready_queue q
	using (select tid, fair_id from granted union all select tid, fair_id from locked where state <> 2) g
	where q.ctid = g.tid and q.queue is not distinct from @queue::smallint and q.band is not distinct from 0
		and q.fair_id is not distinct from g.fair_id
	returning 1
),
claimed as (
	insert into {schema}.claims (pod, claim, runs, steps, epochs)
	select @pod, @claim, array_agg(run_id order by fair_id), array_agg(step order by fair_id), array_agg(epoch order by fair_id)
	from granted
	having count(*) > 0
	returning cardinality(epochs) as tasks
),
served as materialized (
	select 1 from {schema}.frontiers f where f.queue = @queue::smallint and f.band = 0 for no key update skip locked
),
frontier as (
	update {schema}.frontiers f
	set block = g.block
	from (select max(fair_id) / 2097152 as block from granted) g
	where f.queue = @queue::smallint and f.band = 0 and f.block < g.block and exists (select from served)
),
noted as (
	insert into {schema}.task_events (run_id, step, n, kind, at, pod, attempt)
	select g.run_id, g.step, g.epoch, 2, clock.now, @pod, g.attempt + 1 from granted g, clock where g.traits & 2048 = 0 -- no machine
),
attempts as materialized (
	select g.fair_id, {attempt_columns}
	from granted g,
{attempt}
	left join lateral ( -- what starts for the first time has none, unless its output is taken over
		select k.progress from {schema}.task_progress k where (g.epoch > 2 or g.flags & 16 > 0) and k.run_id = g.run_id and k.step = g.step offset 0
	) p on true
)
select clock.now, exists (select from alive), exists (select from known), (select count(*)::int from locked),
	(select count(*)::int from locked where state <> 2),
	(select count(*)::int from usual) + (select count(*)::int from suspects) - (select count(*)::int from held),
	coalesce((select min(fair_id) from granted), 0), a.*
from clock left join attempts a on true
where ln((
	(select count(*) from gone) + (select coalesce(sum(tasks), 0) from claimed)
		= 2 * (select count(*) from granted where state = 3) + (select count(*) from locked where state <> 2)
)::int) is not null
order by a.fair_id
