-- explain_pods: all pods, with how many tasks each holds, by number.
-- Caller: Situation. Index: the primary keys; tasks probed per task held.
select p.id, p.name, p.slots, p.dead, p.expires_at, p.queues,
	array(select h from unnest(p.handlers) h where h = any(@handlers::int[]) order by h), coalesce(c.held, 0), coalesce(c.suspects, 0),
	p.protocol
from {schema}.pods p
	left join (
		select c.pod, count(*)::int as held, (count(*) filter (where t.flags & 128 > 0))::int as suspects
		from {schema}.claims c,
			unnest(c.runs, c.steps, c.epochs) as g (run_id, step, epoch),
			lateral (
				select k.state, k.pod, k.epoch, k.flags from {schema}.tasks k where k.run_id = g.run_id and k.step = g.step offset 0
			) t
		where t.state = 3 and t.pod = c.pod and t.epoch = g.epoch
		group by 1
	) c on c.pod = p.id
order by p.id
