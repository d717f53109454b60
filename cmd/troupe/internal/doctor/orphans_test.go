package doctor

import (
	"testing"
)

// Runs of a removed definition are reported, with the number that is left of it.
func TestFindingsOfARemovedDefinition(t *testing.T) {
	t.Parallel()
	c := open(t, migrated(t))
	c.exec(`insert into troupe.pods (name, version, slots, started_at, expires_at, queues, handlers)
		values ('a', '', 1, now(), now() + interval '1 hour', '{}', '{}')`)
	c.exec("insert into troupe.tenants values ('a', 1)")
	c.exec(`insert into troupe.workflow_runs (id, definition, group_id, remaining, events, queue, state, slow, created_at, tenant)
		values (gen_random_uuid(), 77, 1, 1, 2, 1, 3, false, now(), 'a')`)
	finds(t, c.examine(Options{}), "orphans", Problem, "1 run is under way of definition 77, which is not there", "start the program that has the workflow")
}
