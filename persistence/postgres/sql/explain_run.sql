-- explain_run: a run, its own timers, and who led last.
-- Caller: Situation. Index: the primary keys.
select clock_timestamp(), r.state, r.canceling, coalesce(r.cancel_reason, ''), r.group_id,
	(select k.wake_at from {schema}.durable_timers k where k.run_id = r.id and k.step = -1 and k.kind = 3),
	(select k.wake_at from {schema}.durable_timers k where k.run_id = r.id and k.step = -1 and k.kind = 5),
	(select k.holder from {schema}.leader_epoch k)
from {schema}.every_run r
where r.id = @run and (@tenant::text = '' or r.tenant = @tenant::text)
