package doctor

import "github.com/troupe-dev/troupe/migrations"

// usedUp are numbers and spans of which little or nothing is left, and what is as
// far from its time.
func usedUp() map[string]provoked {
	const alive = "insert into troupe.pods (name, version, slots, started_at, expires_at, queues, handlers) values ('a', '', 1, now(), now() + interval '5 minutes', '{}', '{7}')"
	return map[string]provoked{
		"queues used up": {func(c *clinic) Options {
			c.exec("insert into troupe.queues values (32000, 'x')")
			return Options{}
		}, "ids", Warning, []string{"32000 of 32767 numbers of queues are used", "use another schema"}},
		"spans used up": {func(c *clinic) Options {
			c.exec("insert into troupe.spans (span, since, until, kept_from) overriding system value values (2000000000, '2000-01-01', '2000-01-02', '2000-01-01')")
			return Options{}
		}, "ids", Warning, []string{"2000000000 of 2147483647 numbers of spans of history are used", "use another schema"}},
		"steps used up": {func(c *clinic) Options {
			c.exec("insert into troupe.handlers values (2000000000, 'w', 's', '')")
			return Options{}
		}, "ids", Warning, []string{"2000000000 of 2147483647 numbers of registered steps are used", "use another schema"}},
		"connections used up": {func(*clinic) Options {
			few := usual()
			few.used = 0.001
			return Options{PoolSize: 1, limits: few}
		}, "connections", Warning, []string{" connections are in use", "raise max_connections"}},
		"a table that is not frozen": {func(c *clinic) Options {
			for range 3 {
				c.exec("select pg_current_xact_id()")
			}
			old := usual()
			old.frozen = 0
			return Options{limits: old}
		}, "dead rows", Problem, []string{"tasks is not frozen for ", "vacuum (freeze) it"}},
		"parked although registered": {func(c *clinic) Options {
			c.exec(alive)
			c.exec("insert into troupe.handlers values (7, 'orders', 'ship', '')")
			c.exec("insert into troupe.parked_tasks values (gen_random_uuid(), 0, 1, 0, 7, 1, false)")
			return Options{}
		}, "parked", Warning, []string{`step "ship" of "orders" has 1 parked task although a living pod registers it`, "within a minute"}},
		"no table for now": {func(c *clinic) Options {
			c.exec(alive)
			c.exec("update troupe.spans set closed = true")
			return Options{}
		}, "history", Warning, []string{"no table for the events of now was made", "the leader makes it ahead of time"}},
		"schema ahead": {func(c *clinic) Options {
			c.exec("insert into troupe.schema_version (version, name) values (999, 'of tomorrow')")
			return Options{}
		}, "schema", Problem, []string{migrations.DefaultSchema, "999", "upgrade this program"}},
	}
}
