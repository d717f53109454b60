package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// Once a completion could not be recorded because of what somebody holds, claims
// take nothing of which that is true, however much of it stands before the rest:
// its slots would not become free.
func TestClaimsGoAroundWhatSomebodyHolds(t *testing.T) {
	t.Parallel()
	for what, hold := range holds() {
		for _, limit := range []int{0, 1000} {
			t.Run(fmt.Sprintf("%s, limit %d", what, limit), func(t *testing.T) {
				t.Parallel()
				g := storetest.Diamond()
				k := newKit(openDatabase(t, Options{}), g)
				pod := k.join(time.Hour)
				claim := func(n int) persistence.Claimed {
					t.Helper()
					request := k.request(pod, n)
					request.TenantLimit = limit
					out, err := k.store.ClaimTasks(k.ctx, request)
					require.NoError(t, err)
					return out
				}
				count := func(out persistence.Claimed) map[string]int {
					tenants := map[string]int{}
					for _, grant := range out.Grants {
						tenants[grant.Tenant]++
					}
					return tenants
				}
				k.start(g, "a", 1)
				k.finish(pod) // all counters are there
				k.start(g, "b", 1)
				k.start(g, "a", 900)
				first := claim(5)
				require.Equal(t, map[string]int{"a": 4, "b": 1}, count(first))
				release := hold(k)
				for i, answer := range k.send(k.completion(pod, first.Grants...)) {
					require.Equal(t, first.Grants[i].Tenant == "a", answer == lifecycle.Busy)
				}
				k.start(g, "b", 3)
				var all []persistence.Grant
				for _, want := range []int{4, 1, 0} {
					out := claim(4)
					require.Len(t, out.Grants, want)
					require.Equal(t, want, count(out)["b"])
					require.Positive(t, out.Held)
					require.Equal(t, want, out.Scanned)
					all = append(all, out.Grants...)
				}
				release()
				k.askAgain()
				require.Len(t, claim(10).Grants, 10, "as soon as nobody holds it any more")
				require.Zero(t, claim(10).Held)
				require.Equal(t, lockWaiting, k.store.strained.mode())
				k.complete(pod, all...)
				k.requireSound()
			})
		}
	}
}

// At most one suspect is granted, also of those that a claim has chosen.
func TestSuspectsAroundWhatSomebodyHolds(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k := newKit(openDatabase(t, Options{}), g)
	pod := k.join(time.Hour)
	held := k.start(g, "a", 5)
	k.start(g, "a", 20)
	k.exec(`with marked as (update {schema}.ready_queue set suspect = true where fair_id % 3 <> 0 or run_id = $1 returning run_id, step)
		update {schema}.tasks t set flags = t.flags | 128 from marked m where (t.run_id, t.step) = (m.run_id, m.step)`, [16]byte(held[0]))
	release := k.hold("select from {schema}.workflow_runs where id = any($1) for update", uuids(held))
	k.store.lookForHolders(k.ctx, held)
	suspects := func(may bool) (of, all int) {
		t.Helper()
		request := k.request(pod, 30)
		request.Suspects = may
		out, err := k.store.ClaimTasks(k.ctx, request)
		require.NoError(t, err)
		for _, grant := range out.Grants {
			require.NotContains(t, held, grant.Task.Run)
			if grant.Suspect {
				of++
			}
		}
		return of, len(out.Grants)
	}
	of, all := suspects(true)
	require.Equal(t, 1, of)
	require.Greater(t, all, 1)
	require.Less(t, all, 20)
	of, all = suspects(false)
	require.Zero(t, of+all)
	release()
	k.askAgain()
	k.requireSound()
}

// A claim that does not look at everything does not look at all that somebody holds,
// either: it is made for each wake, and what others enqueue is not far.
func TestClaimsLookAtMuchThatIsHeldRarely(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k := newKit(openDatabase(t, Options{}), g)
	pod := k.join(time.Hour)
	held := k.start(g, "a", aroundMost+700)
	far := k.start(g, "b", 1)[0]
	near := k.start(g, "c", 1)[0]
	k.exec("update {schema}.ready_queue set fair_id = fair_id + 2097152::bigint * 5000 where run_id = $1", [16]byte(far))
	release := k.hold("select from {schema}.workflow_runs where tenant = 'a' for update")
	k.store.lookForHolders(k.ctx, held)
	for _, c := range []struct {
		after int64
		want  []workflow.RunID
	}{{1, []workflow.RunID{near}}, {1, nil}, {0, []workflow.RunID{far}}} {
		request := k.request(pod, 10)
		request.After = c.after
		out, err := k.store.ClaimTasks(k.ctx, request)
		require.NoError(t, err)
		var got []workflow.RunID
		for _, grant := range out.Grants {
			got = append(got, grant.Task.Run)
		}
		require.Equal(t, c.want, got)
		require.GreaterOrEqual(t, out.Held, aroundMost-1, "it says that there is more")
	}
	release()
	k.askAgain()
	k.requireSound()
}
