g.run_id, g.step, g.epoch, g.attempt, g.lost, g.handler, g.queued_at, g.started_at, r.definition, r.tenant, r.labels,
	r.trace_context, r.origin_run, r.started_at, r.canceling, g.flags & 16 > 0 as kept, g.flags & 128 > 0 as suspect, coalesce(octet_length(r.input), -1) as input_size,
	case when octet_length(r.input) <= @inline_max::int then r.input end as input, p.progress,
	o.steps, o.states, o.sizes, o.outputs, o.classes, o.errors, r.options
