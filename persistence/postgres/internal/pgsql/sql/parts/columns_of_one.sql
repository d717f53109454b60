id, definition, group_id, remaining, events, queue, state, slow, created_at, started_at, tenant, key, origin,
		trace_context, labels, input
