l.run_id, l.step, d.hash, l.workflow, l.step_name, s.fingerprint, coalesce(q.name, ''), l.tenant, l.reason, l.class, l.error,
	l.attempts, l.lost, l.created_at, l.started_at, l.died_at, l.requeues, l.requeued_at, l.requeued_as, coalesce(l.handled, false)
