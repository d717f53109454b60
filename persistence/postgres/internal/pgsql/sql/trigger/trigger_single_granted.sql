-- trigger_single_granted: trigger_fast for one plain run whose only first task is granted to
-- the caller's pod at once (lifecycle.Take). What trigger_fast needs for many costs more
-- to be set up than to be done for one. Answers nothing, and stores nothing, where
-- trigger_fast would refuse the run or not grant its task, and where the queue has no
-- frontier. A run that exists is a unique violation. take_after and
-- take_until are as in record_fast.
-- Caller: TriggerRuns. Locks pods (key share, skip locked). Index: the primary
-- keys, each probed once.
with sure as materialized (
	select c.now, q.since, f.block
	from (select clock_timestamp() as now offset 0) c,
		lateral (
			select case when c.now < @take_until::timestamptz and c.now > @take_until::timestamptz - interval '10 minutes'
				then @take_after::bigint else 0 end as since offset 0
		) q,
		{schema}.frontiers f
	where f.queue = @counter_queue::smallint and f.band = 0 and {sure_of_one}
		and (
			select k.fair_id from {schema}.ready_queue k
			where k.queue = @counter_queue::smallint and k.band = 0 and k.fair_id >= q.since order by k.fair_id limit 1
		) is null
		and not exists (select from {schema}.claims c where c.pod = @pod and c.claim = @claim)
),
granted as materialized (
	select s.now, s.since, s.block
	from sure s, {schema}.pods p
	where p.id = @pod and not p.dead and p.expires_at > s.now
	for key share of p skip locked
),
r as (
	insert into {schema}.workflow_runs ({columns_of_one})
	select {values_of_one}
	from granted s
	returning 1
),
t as (
	insert into {schema}.tasks (run_id, step, handler, epoch, pending, parents, queue, state, traits, children, sleep, start_timeout,
		queued_at, pod, started_at)
	select @run::uuid, k.step, k.handler, case when k.pending > 0 then 0 else 2 end, k.pending, k.pending,
		coalesce(k.queue, @queue::smallint), case when k.pending > 0 then 1 else 3 end, k.traits, k.children,
		nullif(k.sleep, 0), nullif(k.start_timeout, 0), case when k.pending = 0 then s.now end,
		case when k.pending = 0 then @pod else 0 end, case when k.pending = 0 then s.now end
	from granted s, {schema}.definition_steps k
	where k.definition = @definition::int and k.traits & 4112 = 0
	returning 1
),
claimed as (
	insert into {schema}.claims (pod, claim, runs, steps, epochs)
	select @pod, @claim, array[@run::uuid], array[@step::int], array[2::bigint] from granted
	returning 1
),
noted as (
	insert into {schema}.task_events (run_id, step, n, kind, at, "by", pod, attempt)
	select @run::uuid, e.step, e.n, e.kind, s.now, e.by, e.pod, e.attempt
	from granted s,
		(values (-1, 1, 32, nullif(@origin::text, ''), null::bigint, null::int), (-1, 2, 33, null, null, null),
			(@step::int, 1, 1, null, null, null), (@step::int, 2, 2, null, @pod, 1)) as e (step, n, kind, by, pod, attempt)
)
select g.now, g.block * 2097152,
	case when g.since > 0 then @take_until::timestamptz
		else clock_timestamp() + least(interval '10 seconds', greatest(interval '250 milliseconds', 20 * (clock_timestamp() - g.now))) end
from granted g
where (
	select ln((
		(select count(*) from r) = begun.n and (select count(*) from t) = begun.n * @tasks::int and (select count(*) from claimed) = begun.n
	)::int)
	from (select count(*) as n from granted) begun
) is not null
