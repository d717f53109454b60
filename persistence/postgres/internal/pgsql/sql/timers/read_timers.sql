-- read_timers: those of some timers that are due, whose runs are locked now,
-- earliest first.
-- Caller: FireTimers, in a statement after the one that locked the runs.
-- Index: durable_timers_pkey, probed per step; parked_tasks_pkey, per timer of
-- the queue.
select t.run_id, t.step, t.kind, t.wake_at, t.epoch, p.run_id is not null
from (select distinct z.run_id, z.step, z.kind from unnest(@runs::uuid[], @steps::int[], @kinds::smallint[]) as z (run_id, step, kind)) d,
	lateral (select * from {schema}.durable_timers k where k.run_id = d.run_id and k.step = d.step and k.kind = d.kind offset 0) t
	left join lateral (
		select k.run_id from {schema}.parked_tasks k where t.kind = 4 and k.run_id = t.run_id and k.step = t.step offset 0
	) p on true
where t.wake_at <= @now
order by t.wake_at, t.run_id, t.step, t.kind
