-- trigger_single: trigger_fast for one plain run whose only first task goes into
-- the queue. What trigger_fast needs for many costs more to be set up than to be done
-- for one. Answers nothing, and stores nothing, where trigger_fast would refuse. A run
-- that exists is a unique violation.
-- Caller: TriggerRuns. Locks tenant_groups before anything is inserted. Index:
-- the primary keys, each probed once.
with sure as materialized (
	select c.now, f.block
	from (select clock_timestamp() as now offset 0) c, {schema}.frontiers f
	where f.queue = @counter_queue::smallint and f.band = 0 and {sure_of_one}
),
allotted as (
	insert into {schema}.tenant_groups as g (queue, group_id, lane, block)
	select @counter_queue::smallint, @group::int, 1, s.block + 1 from sure s
	on conflict (queue, group_id, lane) do update
	set block = (
		select greatest(g.block, f.block) + 1 from {schema}.frontiers f where f.queue = g.queue and f.band = 0
	)
	returning g.block
),
stored as materialized (select a.block, s.now from allotted a, sure s),
r as (
	insert into {schema}.workflow_runs ({columns_of_one})
	select {values_of_one}
	from stored s
	returning 1
),
t as (
	insert into {schema}.tasks (run_id, step, handler, epoch, pending, parents, queue, state, traits, children, sleep, start_timeout,
		queued_at)
	select @run::uuid, k.step, k.handler, case when k.pending > 0 then 0 else 1 end, k.pending, k.pending,
		coalesce(k.queue, @queue::smallint), case when k.pending > 0 then 1 else 2 end, k.traits, k.children,
		nullif(k.sleep, 0), nullif(k.start_timeout, 0), case when k.pending = 0 then s.now end
	from stored s, {schema}.definition_steps k
	where k.definition = @definition::int and k.traits & 4112 = 0
	returning 1
),
waits as (
	insert into {schema}.ready_queue (queue, band, fair_id, run_id, step, handler, suspect)
	select @counter_queue::smallint, 0, @place::bigint + 2097152 * s.block, @run::uuid, @step::int, @handler::int, false
	from stored s
	returning 1
),
noted as (
	insert into {schema}.task_events (run_id, step, n, kind, at, "by")
	select @run::uuid, e.step, e.n, e.kind, s.now, e.by
	from stored s, (values (-1, 1, 32, nullif(@origin::text, '')), (-1, 2, 33, null), (@step::int, 1, 1, null)) as e (step, n, kind, by)
)
select s.now
from stored s
where (
	select ln((
		(select count(*) from r) = begun.n and (select count(*) from t) = begun.n * @tasks::int and (select count(*) from waits) = begun.n
	)::int)
	from (select count(*) as n from stored) begun
) is not null
