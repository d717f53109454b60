package chaos

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// freeSQL counts the open runs of the only tenant that are not locked.
const freeSQL = `select count(*)::int from troupe.workflow_runs where state < 10 and hashtextextended(id::text, 0) & 3 <> 0`

// HELD: one transaction locks a tenant's counters, or its runs, or their tasks, or a
// quarter of these at random, so that most runs continue until they meet a locked row,
// while more is ready than there are slots. Runs of other tenants wait for 5 s at most,
// and so do free runs where there is one tenant alone. A lock of several rows waits for
// none of them: a deadlock is another fault.
func TestAHeldTenantWaitsAlone(t *testing.T) {
	t.Parallel()
	const oneTenant = "one-tenant"
	for name, hold := range map[string]string{
		oneTenant:  `select from troupe.workflow_runs where tenant = 'a' and hashtextextended(id::text, 0) & 3 = 0 for update skip locked`,
		"counters": `select from troupe.tenant_groups g join troupe.tenants n using (group_id) where n.tenant = 'a' for update of g`,
		"runs":     `select from troupe.workflow_runs where tenant = 'a' for update skip locked`,
		"tasks":    `select from troupe.tasks t join troupe.workflow_runs r on r.id = t.run_id where r.tenant = 'a' for update of t skip locked`,
		"some-tasks": `select from troupe.tasks t join troupe.workflow_runs r on r.id = t.run_id
			where r.tenant = 'a' and hashtextextended(t.run_id::text, t.step) & 3 = 0 for update of t skip locked`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const slots = 8
			locked := cmp.Or(map[string]string{
				"some-tasks": "a quarter of the tasks of a tenant with a backlog", oneTenant: "a quarter of the runs of the only tenant",
			}[name], "the "+name+" of a tenant with a backlog")
			other, backlog := "b", 4000
			if name == oneTenant {
				other, backlog = "a", 400
			}
			r := begin(t, row{
				ID: "HELD", Name: "held-" + name, Fault: "another session locks " + locked,
				FullOnly: true, Must: "I9 I14; what was executed and not recorded is not executed again",
				Allowed: []figure{
					atLeast("ready of the tenant, in slots", 10, ""), within("first free run waited", 5*time.Second),
					within("any later one", 5*time.Second), atLeast("of these", 10, ""),
					within("after the release", 5*time.Second), within("drained in", 30*time.Second), none("tasks lost"),
				},
			})
			tune := brisk()
			tune.Slots = slots
			y := newYard(r, tune, 0)
			pods := y.start("pod-1", "pod-2")
			y.flood(pods[0], "diamond/a", backlog)
			y.eventually("the tenant is served", func() bool { return y.number(startsSQL, "a") >= 100 })
			tx, err := y.pool.Begin(t.Context())
			require.NoError(r, err)
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }() // else its pool waits for it
			_, err = tx.Exec(t.Context(), hold)
			require.NoError(r, err)
			r.count("ready of the tenant, in slots", y.number(`select count(*)::int from troupe.ready_queue`)/(2*slots))
			longest := func(spell time.Duration) (time.Duration, int) { return longestRun(y, pods, other, spell) }
			var first time.Duration
			if name == oneTenant {
				first = longestGap(y)
			} else {
				first, _ = longest(0)
				y.flood(pods[1], "diamond/c", spell(1000, 4000)) // they are served before those of the locked tenant, and beyond the release
			}
			later, n := longest(spell(6*time.Second, 14*time.Second))
			require.NoError(r, tx.Rollback(t.Context()))
			released := time.Now()
			after, _ := longest(spell(2*time.Second, 4*time.Second))
			y.until("all runs have ended", patience, func() bool {
				return y.number(`select count(*)::int from troupe.workflow_runs where state < 10`) == 0
			})
			r.took("drained in", time.Since(released))
			r.took("first free run waited", first)
			r.took("any later one", later)
			r.count("of these", n)
			r.took("after the release", after)
			v := y.settle()
			r.count("tasks lost", v.losses)
		})
	}
}

// longestGap returns the longest time between the ends of two free runs of the backlog of
// the only tenant, until all of them have ended.
func longestGap(y *yard) (longest time.Duration) {
	done := func() int { return y.number(`select count(*)::int from troupe.every_run where state = 'completed'`) }
	for n := done(); y.number(freeSQL) > 0; n = done() {
		longest = max(longest, y.until("a run of the backlog ends", patience, func() bool { return done() > n || y.number(freeSQL) == 0 }))
	}
	return longest
}

// longestRun triggers one run of a tenant after the other, and returns how long the
// longest took and how many there were.
func longestRun(y *yard, pods []*pod, tenant string, spell time.Duration) (longest time.Duration, n int) {
	for began := time.Now(); n == 0 || time.Since(began) < spell; n++ {
		at := time.Now()
		id := y.trigger(pods[n%2], "diamond/"+tenant, 1)[0]
		y.until("a free run ends", patience, func() bool {
			return y.number(`select count(*)::int from troupe.every_run where id::text = $1 and state = 'completed'`, id) == 1
		})
		longest = max(longest, time.Since(at))
	}
	return longest, n
}
