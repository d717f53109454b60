-- load_archived_tasks: every task of archived runs, as load_tasks gives those of
-- others. Caller: the slow path, about runs that ended. Index: that of a span of
-- run_history, definition_steps_pkey, probed per task.
select h.id, h.first + u.nth::int - 1, u.state, coalesce(u.traits, s.traits), coalesce(u.flags, 0::smallint), coalesce(u.pending, 0),
	case when u.declared is null then s.pending else 0 end, case when u.declared is null then s.children else '{}' end, u.epoch,
	coalesce(u.attempt, 0), coalesce(u.lost, 0), u.pod, case when u.traits is null then nullif(s.sleep, 0) else u.sleep end,
	case when u.traits is null then nullif(s.start_timeout, 0) else u.timeout end, u.wake_at, u.class, u.error,
	coalesce(s.handler, 0), coalesce(u.queue, s.queue, h.queue), u.declared, u.owner, u.name, coalesce(u.entry, 0)
from {schema}.history_of(@runs::uuid[]) h,
	unnest(h.states, h.flags, h.pendings, h.epochs, h.attempts, h.losts, h.pods, h.wakes, h.classes, h.errors,
		h.declared, h.owners, h.names, h.entries, h.own_traits, h.own_queues, h.own_sleeps, h.own_timeouts)
		with ordinality as u (state, flags, pending, epoch, attempt, lost, pod, wake_at, class, error, declared, owner, name, entry, traits,
			queue, sleep, timeout, nth)
	left join lateral (
		select k.* from {schema}.definition_steps k
		where k.definition = h.definition and k.step = coalesce(u.declared, h.first + u.nth::int - 1) offset 0
	) s on true
where u.state is not null and coalesce(u.traits, s.traits) is not null
