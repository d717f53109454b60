package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// holdCounters locks the counters of a tenant until the returned function is called.
func (k *fixture) holdCounters(tenant string) (release func()) {
	k.t.Helper()
	return k.hold(`select from {schema}.tenant_groups g join {schema}.tenants n using (group_id) where n.tenant = '` + tenant + `' for update of g`)
}

// holds are ways to lock what belongs to tenant a.
func holds() map[string]func(*fixture) func() {
	return map[string]func(*fixture) func(){
		"counters": func(k *fixture) func() { return k.holdCounters("a") },
		"runs": func(k *fixture) func() {
			return k.hold("select from {schema}.workflow_runs where tenant = 'a' for update")
		},
		"tasks, shared": func(k *fixture) func() {
			return k.hold("select from {schema}.tasks t join {schema}.workflow_runs r on r.id = t.run_id where r.tenant = 'a' for share of t")
		},
		"children": func(k *fixture) func() {
			return k.hold("select from {schema}.tasks t join {schema}.workflow_runs r on r.id = t.run_id where r.tenant = 'a' and t.pending > 0 for update of t")
		},
	}
}

// While another session locks rows of one tenant, tasks of others are granted and recorded,
// however many tasks of that tenant come first. After the release all are served.
func TestOthersAreServedBesideALockedTenant(t *testing.T) {
	t.Parallel()
	for what, hold := range holds() {
		for _, limit := range []int{0, 1000} {
			t.Run(fmt.Sprintf("%s, limit %d", what, limit), func(t *testing.T) {
				t.Parallel()
				g := storetest.Diamond()
				k, pod := withCounters(t, g, "a")
				claim := func(n int) (tenants map[string]int, out persistence.Claimed) {
					t.Helper()
					request := k.request(pod, n)
					request.TenantLimit = limit
					out = k.claimed(request)
					tenants = map[string]int{}
					for _, grant := range out.Grants {
						tenants[grant.Tenant]++
					}
					return tenants, out
				}
				k.start(g, "b", 1)
				k.start(g, "a", 900)
				tenants, first := claim(10)
				require.Equal(t, map[string]int{"a": 9, "b": 1}, tenants)
				release := hold(k)
				for i, answer := range k.send(k.completion(pod, first.Grants...)) {
					require.Equal(t, first.Grants[i].Tenant == "a", answer == lifecycle.Busy)
				}
				k.start(g, "b", 3)
				var all []persistence.Grant
				for _, want := range []int{4, 1} {
					tenants, out := claim(4)
					require.Equal(t, map[string]int{"b": want}, tenants)
					require.Positive(t, out.Again)
					all = append(all, out.Grants...)
				}
				k.complete(pod, all...)
				release()
				k.endRests()
				for _, answer := range k.send(k.completion(pod, first.Grants...)) {
					require.Contains(t, []lifecycle.Answer{lifecycle.Moved, lifecycle.AlreadyYours}, answer)
				}
				_, last := claim(10)
				require.Len(t, last.Grants, 10)
				require.Zero(t, last.Again)
				k.requireSound()
			})
		}
	}
}

// While locks are in the way, places that another pod looks at are passed over.
func TestClaimsOfSeveralPodsLookAtDifferentPlaces(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k, pod := withCounters(t, g, "a")
	k.start(g, "a", 20)
	release := k.hold("select from {schema}.ready_queue order by fair_id limit 10 for update")
	k.store.quarantine.LockTimeout(k.ctx)
	require.Len(t, k.claim(pod, 10), 10)
	out, err := k.store.ClaimTasks(k.ctx, k.request(pod, 10))
	require.NoError(t, err)
	require.Empty(t, out.Grants)
	require.Positive(t, out.Again)
	require.Zero(t, k.store.quarantine.Met(quarantine.Locked))
	release()
	require.Len(t, k.claim(pod, 20), 10)
}

// Where no other tenant has ready work only the runs rest that are locked.
func TestFreeRunsOfALockedTenantAreServed(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k, pod := withCounters(t, g, "a")
	held := k.start(g, "a", 60)
	free := k.start(g, "a", 20)
	release := k.hold("select from {schema}.workflow_runs where id = any($1) for update", pgsql.UUIDs(held))
	k.store.quarantine.LockTimeout(k.ctx)
	served := map[workflow.RunID]bool{}
	for range 4 {
		grants := k.claim(pod, 10)
		k.complete(pod, grants...)
		for _, grant := range grants {
			served[grant.Task.Run] = true
		}
	}
	require.Len(t, served, len(free))
	for _, run := range free {
		require.Equal(t, lifecycle.Completed, k.state(run))
	}
	require.NotEmpty(t, k.store.quarantine.Excluded().Tenants)
	release()
	k.endRests()
	k.finish(pod)
	k.requireSound()
}

// What was left out while its tenant rested comes back behind what was served meanwhile.
func TestABacklogComesBackBehindTheFrontier(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k, pod := withCounters(t, g, "a", "b")
	late := k.start(g, "a", 30)
	k.start(g, "b", 300)
	group := value[int32](k.database, "select group_id from {schema}.tenants where tenant = 'a'")
	for i := range quarantine.TenantRuns {
		k.store.quarantine.AddLocked(map[workflow.RunID]int32{{byte(i)}: group})
	}
	k.restUntil(time.Now().Add(time.Hour))
	for range 20 {
		grants := k.claim(pod, 10)
		require.Len(t, grants, 10)
		for _, grant := range grants {
			require.Equal(t, "b", grant.Tenant)
		}
		k.complete(pod, grants...)
	}
	fresh := k.start(g, "a", 5)
	k.endRests()
	var order []workflow.RunID
	for range 6 {
		count := map[string]int{}
		grants := k.claim(pod, 10)
		for _, grant := range grants {
			if count[grant.Tenant]++; grant.Tenant == "a" {
				order = append(order, grant.Task.Run)
			}
		}
		require.InDelta(t, 5, count["a"], 1, "both tenants take turns")
		k.complete(pod, grants...)
	}
	require.Subset(t, append(late, fresh...), order)
	k.finish(pod)
	k.requireSound()
}

// More locked timers than a call chooses hide no other's between them.
func TestTimersAmongManyLockedOnes(t *testing.T) {
	t.Parallel()
	k, g, pod, epoch := newNaps(t)
	begin := func(tenant string, n int) {
		k.start(g, tenant, n)
		k.complete(pod, k.claim(pod, n)...)
	}
	begin("a", 1)
	begin("b", 1)
	k.fire(epoch, 10)
	k.finish(pod)
	begin("a", 30)
	begin("b", 3)
	begin("a", 30)
	release := k.hold("select from {schema}.workflow_runs where tenant = 'a' for update")
	fired := 0
	for range 6 {
		fired += k.fire(epoch, 30).Count
	}
	require.Equal(t, 3, fired, "all of b")
	release()
	for range 40 {
		k.endRests()
		out := k.fire(epoch, 4)
		fired += out.Count
	}
	require.Equal(t, 63, fired)
	k.requireSound()
}

// Tasks of a dead pod that are locked, or the counters of whose tenant, keep no others
// from being taken over; the pod stays until they are.
func TestTakeoverBesideLocks(t *testing.T) {
	t.Parallel()
	for what, hold := range holds() {
		if what == "children" { // there are none
			continue
		}
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			g := storetest.Single()
			k, pod := withCounters(t, g, "a", "b")
			epoch := k.bump(pod)
			for _, tenant := range []string{"a", "b"} {
				k.start(g, tenant, 1)
			}
			left := k.join(time.Hour) // a task that was handed back has another counter
			require.Len(t, k.claim(left, 10), 2)
			k.leave(left)
			k.finish(pod)
			k.start(g, "a", 10)
			k.start(g, "b", 2)
			dead := k.join(time.Hour)
			require.Len(t, k.claim(dead, 100), 12)
			k.exec(`update {schema}.pods set expires_at = now() - interval '1 second' where id = $1`, dead)
			release := hold(k)
			taken := 0
			for range 4 {
				out := k.expire(epoch, 5)
				require.Equal(t, []int64{dead}, out.Pods)
				require.LessOrEqual(t, out.NextExpiry.Sub(out.Now), quarantine.RestMax)
				taken += out.Tasks
			}
			require.Equal(t, 2, taken, "those of b")
			release()
			for range 3 {
				k.endRests()
				out := k.expire(epoch, 5)
				taken += out.Tasks
			}
			require.Equal(t, 12, taken)
			require.Zero(t, value[int](k.database, "select count(*)::int from {schema}.pods where id = $1", dead))
			k.finish(pod)
			k.requireSound()
		})
	}
}

// A failure whose decision needs rows that no look has found is answered Busy, and others
// of its batch are stored.
func TestAFailureThatReachesLockedRows(t *testing.T) {
	t.Parallel()
	g := storetest.Diamond()
	k, pod := withCounters(t, g, "a")
	runs := k.start(g, "a", 4)
	record := k.completion(pod, k.claim(pod, 10)...)
	for i := range record.Transitions {
		record.Transitions[i].Report, record.Transitions[i].Class = lifecycle.Errored, "error"
	}
	last := value[int32](k.database, "select max(step) from {schema}.tasks where run_id = $1", [16]byte(runs[1]))
	release := k.hold("select from {schema}.tasks where run_id = $1 and step = $2 for update", [16]byte(runs[1]), last)
	for i, answer := range k.send(record) {
		require.Equal(t, record.Transitions[i].Task.Run == runs[1], answer == lifecycle.Busy)
	}
	require.Equal(t, 1, k.store.quarantine.Met(quarantine.Locked))
	release()
	k.endRests()
	for _, answer := range k.send(record) {
		require.Contains(t, []lifecycle.Answer{lifecycle.Moved, lifecycle.AlreadyYours}, answer)
	}
	k.requireSound()
}

// A lock is not the fault of a step in a transaction: the attempt is not charged, and the
// next transaction is not begun while the run is in quarantine.
func TestALockIsNotTheFaultOfAStepInATransaction(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k, pod := withCounters(t, g, "a")
	k.start(g, "a", 1)
	grant := k.claim(pod, 1)[0]
	release := k.hold("select from {schema}.workflow_runs where id = $1 for update", [16]byte(grant.Task.Run))
	called := 0
	record := func() (persistence.Recorded, error) {
		return k.store.RecordInTx(k.ctx, persistence.Record{GrantRequest: persistence.GrantRequest{Pod: pod, Claim: k.claimID()}, Task: grant.Task}, func(context.Context, any) (persistence.Transition, error) {
			called++
			return persistence.Transition{Task: grant.Task, Epoch: grant.Epoch, Report: lifecycle.Succeeded, Output: []byte("1")}, nil
		})
	}
	_, err := record()
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	require.NotErrorIs(t, err, persistence.ErrTxBroken)
	require.Equal(t, 1, called)
	out, err := record()
	require.NoError(t, err)
	require.Equal(t, lifecycle.Busy, out.Answers[0].Result)
	require.Equal(t, 1, called)
	release()
	k.endRests()
	out, err = record()
	require.NoError(t, err)
	require.Equal(t, lifecycle.Moved, out.Answers[0].Result)
	require.Equal(t, 2, called)
	k.requireSound()
}

// While locks are in the way neither first tasks nor children are granted with what
// stores or completes their runs.
func TestNothingIsGrantedAtOnceBesideLocks(t *testing.T) {
	t.Parallel()
	g := storetest.Diamond()
	k, pod := withCounters(t, g, "a")
	take := persistence.GrantRequest{Pod: pod, Claim: k.claimID(), Limit: 10, Handlers: k.handlers, Queues: []string{registry.DefaultQueue}}
	k.store.quarantine.LockTimeout(k.ctx)
	out := k.trigger(k.draft(g, "a", 1), take)
	require.Equal(t, persistence.Triggered, out.Answers[0].Result)
	require.Empty(t, out.Grants)
	record := k.completion(pod, k.claim(pod, 10)...)
	record.Claim, record.Limit, record.Queues, record.Handlers = k.claimID(), 2, []string{registry.DefaultQueue}, k.handlers
	recorded := k.record(record)
	require.Equal(t, lifecycle.Moved, recorded.Answers[0].Result)
	require.Empty(t, recorded.Grants)
	k.finish(pod)
	k.requireSound()
}
