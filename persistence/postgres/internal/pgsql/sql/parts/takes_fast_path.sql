lateral ( -- lifecycle.TakesFastPath: flag 8 is FlagLive, traits 1 and 2 are sleeps, 32 is a wait for a signal,
	-- 1024 is a map or, if it is dynamic, an element, whose map has to hear of its end.
	-- 2048 is a machine and 4096 what one has started, of whose end it hears.
	-- The last tasks of a child run need a decision, because its parent hears of its end.
	select k.group_id, k.slow, k.parent_run from {schema}.workflow_runs k
	where k.id = d.run_id and not (k.slow and (k.canceling or k.failing or k.unhandled or k.cut or k.handler_made)) offset 0
) r,
lateral (
	select k.ctid as tid, k.state, k.epoch, k.pod, k.children from {schema}.tasks k
	where k.run_id = d.run_id and k.step = d.step and (not r.slow or k.start_timeout is null and (r.parent_run is null or k.children <> '{}')
		and (k.traits & 1024 = 0 or k.declared is null) and k.traits & 6144 = 0 and not exists (
		select from unnest(k.children) c, lateral (
			select from {schema}.tasks n
			where n.run_id = k.run_id and n.step = c >> 3 and (n.flags & ~8 <> 0 or n.traits & 35 <> 0 or n.start_timeout is not null)
			offset 0
		) n
	)) offset 0
) x
