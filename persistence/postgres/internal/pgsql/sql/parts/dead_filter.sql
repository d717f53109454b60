(@tenant::text is null or l.tenant = @tenant::text)
	and (@workflow::text is null or l.workflow = @workflow::text)
	and (@step::text is null or l.step_name = @step::text)
	and (@queue::text is null or @queue::text = (
		select k.name
		from {schema}.queues k
		where k.queue = coalesce((
			select s.queue from {schema}.definition_steps s where s.definition = l.definition and s.step = coalesce(l.declared, l.step)
		), l.queue)
	))
	and (@handler::text is null or exists (
		select from {schema}.definition_steps s
		where s.definition = l.definition and s.step = coalesce(l.declared, l.step) and starts_with(encode(s.fingerprint, 'hex'), @handler::text)
	))
	and (cardinality(@reasons::smallint[]) = 0 or l.reason = any(@reasons::smallint[]))
	and (@older::bigint = 0 or l.died_at <= least(clock_timestamp(), @by::timestamptz) - @older::bigint * interval '1 microsecond')
	and (@younger::bigint = 0 or l.died_at > clock_timestamp() - @younger::bigint * interval '1 microsecond')
	and (@requeued::smallint = 0 or (l.requeues > 0) = (@requeued::smallint = 2))
