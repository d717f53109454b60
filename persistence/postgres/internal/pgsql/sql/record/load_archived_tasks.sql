-- load_archived_tasks: every task of archived runs, as load_tasks gives those of
-- others. Caller: the slow path, about runs that ended. Index: that of a span of
-- run_history, definition_steps_pkey, probed per task.
select h.id, h.first + u.nth::int - 1, u.state, s.traits, coalesce(u.flags, 0::smallint), coalesce(u.pending, 0),
	case when u.declared is null then s.pending else 0 end, case when u.declared is null then s.children else '{}' end, u.epoch,
	coalesce(u.attempt, 0), coalesce(u.lost, 0), u.pod, nullif(s.sleep, 0), nullif(s.start_timeout, 0), u.wake_at, u.class, u.error,
	s.handler, coalesce(s.queue, h.queue), u.declared, u.owner, u.name
from {schema}.history_of(@runs::uuid[]) h,
	unnest(h.states, h.flags, h.pendings, h.epochs, h.attempts, h.losts, h.pods, h.wakes, h.classes, h.errors,
		h.declared, h.owners, h.names)
		with ordinality as u (state, flags, pending, epoch, attempt, lost, pod, wake_at, class, error, declared, owner, name, nth),
	lateral (
		select k.* from {schema}.definition_steps k
		where k.definition = h.definition and k.step = coalesce(u.declared, h.first + u.nth::int - 1) offset 0
	) s
