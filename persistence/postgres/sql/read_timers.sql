-- read_timers: due timers of tasks whose runs are locked now, earliest first.
-- Caller: FireTimers, in a statement after the one that locked the runs.
-- Index: durable_timers_pkey, probed per step.
select t.run_id, t.step, t.kind, t.wake_at, t.epoch
from (select distinct z.run_id, z.step from unnest(@runs::uuid[], @steps::int[]) as z (run_id, step)) d,
	lateral (select * from {schema}.durable_timers k where k.run_id = d.run_id and k.step = d.step offset 0) t
where t.wake_at <= @now
order by t.wake_at, t.run_id, t.step, t.kind
