-- claim_first: claim_tasks where all that it may have is the first start of a first
-- task: queued, not locked, no suspect. What claim_tasks needs for all else takes
-- longer to be set up than to grant one task. Grants all that it sees or nothing;
-- the fourth column says how much that was. Its columns are those of claim_tasks.
-- Caller: claimer. Locks pods (key share), ready_queue, tasks and frontiers,
-- all skip locked: it waits for nothing; a frontier that is moved meanwhile stays
-- as it is. Index: ready_queue_pkey for the order,
-- the primary keys probed per task.
with clock as materialized (select clock_timestamp() as now),
alive as materialized (
	select 1 from {schema}.pods p, clock
	where p.id = @pod and not p.dead and p.expires_at > clock.now for key share of p skip locked
),
known as materialized (select 1 from {schema}.claims c where c.pod = @pod and c.claim = @claim),
seen as materialized (
	select q.ctid as tid, q.fair_id, q.run_id, q.step, q.suspect
	from {schema}.ready_queue q
	where q.queue = @queue::smallint and q.band = 0 and q.fair_id >= @after::bigint and q.handler = any(@handlers::int[])
		and (@suspects::bool or not q.suspect) -- what this pod may not have is not locked
		and exists (select from alive) and not exists (select from known)
	order by q.fair_id
	limit @limit::int
	for update skip locked
),
first as materialized (
	select s.tid, s.fair_id, s.run_id, s.step, x.tid as task
	from seen s,
		lateral (
			select k.ctid as tid from {schema}.tasks k
			where k.run_id = s.run_id and k.step = s.step and k.state = 2 and k.epoch = 1 and k.parents = 0 and k.traits & 16 = 0
				and k.flags & 16 = 0
			offset 0 for no key update skip locked
		) x
	where not s.suspect
),
granted as (
	update {schema}.tasks t
	set state = 3, epoch = 2, pod = @pod, started_at = l.now
	from (select f.*, clock.now from first f, clock where (select count(*) from seen) = (select count(*) from first) offset 0) l
	where t.ctid = l.task and t.run_id is not distinct from l.run_id and t.step is not distinct from l.step and t.state = 2
	returning t.run_id, t.step, t.state, t.attempt, t.lost, t.handler, t.queued_at, t.started_at, t.traits, t.flags, l.fair_id, l.tid
),
gone as (
	delete from {schema}.ready_queue q
	using granted g
	where q.ctid = g.tid and q.queue is not distinct from @queue::smallint and q.band is not distinct from 0
		and q.fair_id is not distinct from g.fair_id
	returning 1
),
claimed as (
	insert into {schema}.claims (pod, claim, runs, steps, epochs)
	select @pod, @claim, array_agg(run_id order by fair_id), array_agg(step order by fair_id), array_agg(2::bigint)
	from granted
	having count(*) > 0
	returning cardinality(epochs) as tasks
),
frontier as (
	update {schema}.frontiers f
	set block = s.block
	from (
		select g.block, x.tid
		from (select max(fair_id) / 2097152 as block from granted) g,
			lateral (
				select k.ctid as tid from {schema}.frontiers k
				where k.queue = @queue::smallint and k.band = 0 and k.block < g.block offset 0 for no key update skip locked
			) x
		offset 0
	) s
	where f.ctid = s.tid and f.block < s.block
),
noted as (
	insert into {schema}.task_events (run_id, step, n, kind, at, pod, attempt)
	select g.run_id, g.step, 2, 2, g.started_at, @pod, g.attempt + 1 from granted g where g.traits & 2048 = 0 -- no machine
)
select clock.now, exists (select from alive), exists (select from known), (select count(*)::int from seen), 0, 0,
	coalesce((select min(fair_id) from granted), 0), a.*
from clock
	left join (
		select g.fair_id, g.run_id, g.step, 2::bigint, g.attempt, g.lost, g.handler, g.queued_at, g.started_at, r.definition, r.tenant,
			r.labels, r.trace_context, r.origin_run, r.started_at, r.canceling, false, g.flags & 128 > 0,
			coalesce(octet_length(r.input), -1), case when octet_length(r.input) <= @inline_max::int then r.input end, null::bytea,
			null::int[], null::smallint[], null::int[], null::bytea[], null::text[], null::text[], r.options
		from granted g,
			lateral (
				select k.definition, k.tenant, k.labels, k.trace_context, k.origin_run, k.started_at, k.canceling, k.input, k.options
				from {schema}.workflow_runs k where k.id = g.run_id offset 0
			) r
	) a on true
where ln((
	(select count(*) from gone) + (select coalesce(sum(tasks), 0) from claimed) = 2 * (select count(*) from granted where state = 3)
)::int) is not null
order by a.fair_id
