-- load_archived: runs that were archived, as load_runs gives others.
-- Caller: the slow path, about what it found no run for. Locks nothing: an
-- archived run changes no more. Index: that of a span of run_history.
select h.id, h.definition, h.group_id, h.queue, h.state, h.remaining, h.events, h.slow, h.canceling, h.failing, h.unhandled,
	h.cut, h.handler_made, h.failed_step, h.tenant, coalesce(h.dynamic_count, 0), coalesce(h.signals, 0),
	h.parent_run, coalesce(h.parent_step, 0), coalesce(h.depth, 0), coalesce(h.abandoned, false)
from {schema}.history_of(@runs::uuid[]) h
where h.slice = 0
order by h.id
