left join lateral (select k.hash from {schema}.workflow_definitions k where k.definition = l.definition offset 0) d on true
	left join lateral (
		select k.fingerprint, k.queue from {schema}.definition_steps k where k.definition = l.definition and k.step = coalesce(l.declared, l.step) offset 0
	) s on true
	left join lateral (select k.name from {schema}.queues k where k.queue = coalesce(s.queue, l.queue) offset 0) q on true
