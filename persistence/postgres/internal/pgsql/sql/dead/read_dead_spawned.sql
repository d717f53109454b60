-- read_dead_spawned: how the machine of an ended run stands, and what it has started, by step.
-- Caller: RequeueDeadLetter. Index: tasks_pkey, or that of a span of run_history.
{live_or_old}
select t.*
from (
	select k.step, k.state, k.traits, k.flags, coalesce(k.entry, 0) as entry from live, {schema}.tasks k where k.run_id = live.id
	union all
	select h.first + u.nth::int - 1, u.state, coalesce(u.own, s.traits), coalesce(u.flags, 0::smallint), coalesce(u.entry, 0)
	from old h, unnest(h.states, h.flags, h.own_traits, h.entries, h.declared) with ordinality as u (state, flags, own, entry, declared, nth)
		left join lateral (
			select k.traits from {schema}.definition_steps k
			where k.definition = h.definition and k.step = coalesce(u.declared, h.first + u.nth::int - 1) offset 0
		) s on true
	where u.state is not null and coalesce(u.own, s.traits) is not null
) t
order by t.step
