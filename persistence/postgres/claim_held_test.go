package postgres

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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
	k.store.lookForHolders(k.ctx, firstTasks(held))
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
	k.store.lookForHolders(k.ctx, firstTasks(held))
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

// lettingGo ends a hold in the middle of a claim, once it has passed over something, and
// somebody finds out.
type lettingGo struct {
	counter

	release func()
}

// TraceQueryEnd implements pgx.QueryTracer.
func (l *lettingGo) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {
	if release := l.release; release != nil && slices.Contains(l.take(), "known_held") {
		l.release = nil
		release()
	}
}

// A claim in whose middle a hold ends takes what it has passed over, not what stands
// behind that: the frontier would move past everybody's places.
func TestAHoldThatEndsInTheMiddleOfAClaim(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 1000} {
		t.Run(fmt.Sprintf("limit %d", limit), func(t *testing.T) {
			t.Parallel()
			g := storetest.Single()
			tracer := &lettingGo{}
			k := newKit(openDatabase(t, Options{Tracer: tracer}), g)
			pod := k.join(time.Hour)
			held := k.start(g, "a", 200)
			release := k.hold("select from {schema}.workflow_runs where tenant = 'a' for update")
			k.store.lookForHolders(k.ctx, firstTasks(held))
			tracer.take()
			tracer.release = func() {
				release()
				k.askAgain()
				k.store.locking(k.ctx)
			}
			request := k.request(pod, 10)
			request.TenantLimit = limit
			out, err := k.store.ClaimTasks(k.ctx, request)
			require.NoError(t, err)
			require.Nil(t, tracer.release)
			require.Len(t, out.Grants, 10)
			for _, grant := range out.Grants {
				require.Contains(t, held[:10], grant.Task.Run)
			}
			require.Zero(t, out.Held)
			k.finish(pod)
			k.requireSound()
		})
	}
}

// Claims go around places whose tasks somebody holds, however many of these come first.
func TestClaimsGoAroundTasksThatSomebodyHolds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit int
		lost  bool // there is a run that cannot be read
	}{{0, false}, {1000, false}, {0, true}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			g := storetest.Single()
			k := newKit(openDatabase(t, Options{}), g)
			pod := k.join(time.Hour)
			if c.lost {
				k.store.lost.remember(workflow.RunID{1}, time.Minute)
			}
			held := k.start(g, "a", 250)[:249]
			others := k.start(g, "b", 30)
			k.exec("update {schema}.ready_queue set fair_id = fair_id + 2097152::bigint * 5000 where run_id = any($1)", uuids(others))
			claim := func(n int) (runs []workflow.RunID, out persistence.Claimed) {
				t.Helper()
				request := k.request(pod, n)
				request.TenantLimit = c.limit
				out, err := k.store.ClaimTasks(k.ctx, request)
				require.NoError(t, err)
				for _, grant := range out.Grants {
					runs = append(runs, grant.Task.Run)
				}
				return runs, out
			}
			release := k.hold(`select from {schema}.tasks where run_id = any($1) for update`, uuids(held))
			first, out := claim(20)
			require.Len(t, first, 20)
			require.Positive(t, out.Held)
			second, out := claim(20)
			require.Len(t, second, 11, "of thirty-one")
			for _, run := range append(first, second...) {
				require.NotContains(t, held, run)
			}
			require.Positive(t, out.Held)
			none, out := claim(20)
			require.Empty(t, none)
			require.GreaterOrEqual(t, out.Held, 249)
			release()
			some, out := claim(20)
			require.Len(t, some, 20)
			require.Zero(t, out.Held)
			k.finish(pod)
			k.requireSound()
		})
	}
}
