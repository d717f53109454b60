package doctor

// late inserts a run and so many of its timers, an hour late.
func (c *clinic) late(timers int) {
	c.t.Helper()
	c.exec(`insert into troupe.workflow_runs (id, definition, group_id, remaining, events, queue, state, slow, created_at, tenant)
		select gen_random_uuid(), 1, 1, 1, 1, 1, 3, false, now(), 'a'`)
	c.exec(`insert into troupe.durable_timers (run_id, step, kind, wake_at, epoch)
		select id, step, 1, now() - interval '1 hour', 1 from troupe.workflow_runs, generate_series(1, $1::int) step`, timers)
}

// lateTimers are provocations, too.
func lateTimers() map[string]provoked {
	return map[string]provoked{
		"late timers": {func(c *clinic) Options {
			c.late(1)
			return Options{}
		}, "timers", Problem, []string{"1 timer is due and not fired", "for 1 h"}},
		"many late timers": {func(c *clinic) Options {
			c.late(lateMax + 1)
			return Options{}
		}, "timers", Problem, []string{"at least 10000 timers are due and not fired"}},
	}
}
