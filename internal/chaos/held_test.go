package chaos

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// HELD: one transaction locks a tenant's counter, or its runs, or their tasks, or a
// quarter of these at random, so that most runs continue until they meet a locked row,
// while more is ready than there are slots. The tenant waits alone. A lock of several
// rows waits for none of them: a deadlock is another fault.
func TestAHeldTenantWaitsAlone(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]string{
		"counters": `select from troupe.tenant_groups g join troupe.tenants n using (group_id) where n.tenant = 'a' for update of g`,
		"runs":     `select from troupe.workflow_runs where tenant = 'a' for update skip locked`,
		"tasks":    `select from troupe.tasks t join troupe.workflow_runs r on r.id = t.run_id where r.tenant = 'a' for update of t skip locked`,
		"some-tasks": `select from troupe.tasks t join troupe.workflow_runs r on r.id = t.run_id
			where r.tenant = 'a' and hashtextextended(t.run_id::text, t.step) & 3 = 0 for update of t skip locked`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const slots = 8
			r := begin(t, row{
				ID: "HELD", Name: "held-" + name, Fault: "another session locks " + cmp.Or(map[string]string{"some-tasks": "a quarter of the tasks"}[name], "the "+name) + " of a tenant with a backlog",
				FullOnly: true, Must: "I9 I14; what was executed and not recorded is not executed again",
				Allowed: []figure{
					atLeast("ready of the tenant, in slots", 10, ""), within("the first run of another took", 6*time.Second),
					within("any later one", 2*time.Second), atLeast("of these", 10, ""),
					within("any after it", 2*time.Second), none("tasks lost"),
				},
			})
			tune := brisk()
			tune.Slots = slots
			y := newYard(r, tune, 0)
			pods := y.start("pod-1", "pod-2")
			y.flood(pods[0], "diamond/a", 4000)
			y.eventually("the tenant is served", func() bool { return y.number(startsSQL, "a") >= 100 })
			tx, err := y.pool.Begin(t.Context())
			require.NoError(r, err)
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }() // else its pool waits for it
			_, err = tx.Exec(t.Context(), hold)
			require.NoError(r, err)
			r.count("ready of the tenant, in slots", y.number(`select count(*)::int from troupe.ready_queue`)/(2*slots))
			longest := func(tenant string, spell time.Duration) (longest time.Duration, n int) {
				for began := time.Now(); n == 0 || time.Since(began) < spell; n++ {
					at := time.Now()
					id := y.trigger(pods[n%2], "diamond/"+tenant, 1)[0]
					y.until("a run of another tenant ends", patience, func() bool {
						return y.number(`select count(*)::int from troupe.every_run where id::text = $1 and state = 'completed'`, id) == 1
					})
					longest = max(longest, time.Since(at))
				}
				return longest, n
			}
			first, _ := longest("b", 0)
			y.flood(pods[1], "diamond/c", spell(1000, 6000)) // passes by what is held, by many turns, and beyond the release
			later, n := longest("b", spell(6*time.Second, 14*time.Second))
			require.NoError(r, tx.Rollback(t.Context()))
			after, _ := longest("b", spell(2*time.Second, 4*time.Second))
			r.took("the first run of another took", first)
			r.took("any later one", later)
			r.count("of these", n)
			r.took("any after it", after)
			v := y.settle()
			r.count("tasks lost", v.losses)
		})
	}
}
