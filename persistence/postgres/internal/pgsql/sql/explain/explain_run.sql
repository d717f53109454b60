-- explain_run: a run, whether its definition is there, its own timers, the last leader,
-- the traits of the steps of its workflow, and its parent.
-- Caller: Situation. Index: the primary keys, or that of a span of run_history.
{live_or_old}
select clock_timestamp(), r.state, r.canceling, coalesce(r.cancel_reason, ''), r.group_id,
	not exists (select from {schema}.workflow_definitions k where k.definition = r.definition),
	(select k.wake_at from {schema}.durable_timers k where k.run_id = r.id and k.step = -1 and k.kind = 3),
	(select k.wake_at from {schema}.durable_timers k where k.run_id = r.id and k.step = -1 and k.kind = 5),
	(select k.holder from {schema}.leader_epoch k),
	(select coalesce(bit_or(k.traits), 0) from {schema}.definition_steps k where k.definition = r.definition), r.parent_run
from (
	select r.id, r.definition, r.state, r.canceling, r.cancel_reason, r.group_id, r.tenant, r.parent_run from live r
	union all
	select h.id, h.definition, h.state, h.canceling, h.cancel_reason, h.group_id, h.tenant, h.parent_run from old h where h.slice = 0
) r
where @tenant::text = '' or r.tenant = @tenant::text
