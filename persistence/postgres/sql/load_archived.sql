-- load_archived: runs that were archived, as load_runs gives others.
-- Caller: the slow path, about what it found no run for. Locks nothing: an
-- archived run changes no more. Index: that of each span of run_history.
select h.id, h.definition, h.group_id, h.queue, h.state, h.remaining, h.events, h.slow, h.canceling, h.failing, h.unhandled,
	h.cut, h.handler_made, h.failed_step, h.tenant
from (select distinct id from unnest(@runs::uuid[]) as z (id) order by id) d,
	lateral (select * from {schema}.run_history k where k.id = d.id and k.slice = 0 offset 0) h
