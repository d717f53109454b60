-- After live_or_old. Without elements of maps (dynamic tasks of trait 1024), of which there may
-- be very many: dynamic tasks have numbers behind those of the steps and of the failure handler,
-- and an index of their own. Outputs are read if outputs is true: those in history are one
-- array for each slice of the run, so that one of them costs the server the slice. Their
-- sizes are kept only beside large ones.
t as (
	select k.step, k.state, k.traits, k.flags, k.epoch, k.attempt, k.lost, k.pod, k.wake_at, k.started_at, k.finished_at, k.class, k.error,
		octet_length(k.output) as size, case when @outputs::bool then k.output end as output, k.declared, k.owner, k.name, k.child
	from live, {schema}.tasks k
	where k.run_id = live.id and k.declared is null and k.step <= coalesce((
		select d.steps from {schema}.workflow_definitions d where d.definition = live.definition
	), 2147483647)
	union all
	select k.step, k.state, k.traits, k.flags, k.epoch, k.attempt, k.lost, k.pod, k.wake_at, k.started_at, k.finished_at, k.class, k.error,
		octet_length(k.output), case when @outputs::bool then k.output end, k.declared, k.owner, k.name, k.child
	from live, {schema}.tasks k
	where live.dynamic_count > 0 and k.run_id = live.id and k.declared is not null and k.traits & 1024 = 0
	union all
	select h.first + u.nth::int - 1, u.state, coalesce(u.own, s.traits), coalesce(u.flags, 0::smallint), u.epoch, coalesce(u.attempt, 0), coalesce(u.lost, 0),
		u.pod, u.wake_at, u.started_at, u.finished_at, u.class, u.error, coalesce(u.size, octet_length(u.output)),
		case when @outputs::bool then u.output end, u.declared, u.owner, u.name, u.child
	from old h,
		unnest(h.states, h.flags, h.epochs, h.attempts, h.losts, h.pods, h.wakes, h.started, h.finished, h.classes, h.errors,
			h.sizes, case when @outputs::bool or h.sizes is null then h.outputs end, h.declared, h.owners, h.names,
			h.child_runs, h.own_traits)
			with ordinality as u (state, flags, epoch, attempt, lost, pod, wake_at, started_at, finished_at, class, error, size, output,
				declared, owner, name, child, own, nth)
		left join lateral (
			select k.traits from {schema}.definition_steps k
			where k.definition = h.definition and k.step = coalesce(u.declared, h.first + u.nth::int - 1) offset 0
		) s on true
	where u.state is not null and coalesce(u.own, s.traits) is not null
		and (u.declared is null or coalesce(u.own, s.traits) & 1024 = 0) and (h.declared is null or h.own_traits is not null or exists (
			select from {schema}.definition_steps k
			where k.definition = h.definition and k.traits & 1024 = 0 and k.step = any(h.declared)
		))
)
