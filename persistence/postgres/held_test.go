package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// holdCounters keeps the counters of a tenant until the returned function is called.
func (k *kit) holdCounters(tenant string) (release func()) {
	k.t.Helper()
	return k.hold(`select from {schema}.tenant_groups g join {schema}.tenants n using (group_id) where n.tenant = '` + tenant + `' for update of g`)
}

// Runs that were stored in transactions of the embedder's begin though somebody
// holds the counters of another tenant, whose runs are older; those wait.
func TestSubmissionsBesideHeldCounters(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k := newKit(openDatabase(t, Options{}), g)
	pod := k.join(time.Hour)
	k.start(g, "a", 1)
	k.start(g, "b", 1)
	k.complete(pod, k.claim(pod, 10)...)
	tx, err := k.user.Begin(k.ctx)
	require.NoError(t, err)
	for _, tenant := range []string{"a", "a", "a", "b"} {
		answer, err := k.store.TriggerInTx(k.ctx, tx, k.draft(g, tenant, 1)[0])
		require.NoError(t, err)
		require.Equal(t, persistence.Triggered, answer.Result)
	}
	require.NoError(t, tx.Commit(k.ctx))
	release := k.holdCounters("a")
	out, err := k.store.DrainIntake(k.ctx, 2) // those of a fill it
	require.NoError(t, err)
	require.Equal(t, 1, out.Count)
	require.True(t, out.Later)
	require.Equal(t, lockCalm, k.store.strained.mode())
	granted := k.claim(pod, 10)
	require.Len(t, granted, 1)
	require.Equal(t, "b", granted[0].Tenant)
	k.complete(pod, granted...)
	release()
	k.askAgain()
	out, err = k.store.DrainIntake(k.ctx, 10)
	require.NoError(t, err)
	require.Equal(t, 3, out.Count)
	require.False(t, out.Later)
	k.finish(pod)
	k.requireSound()
}

// A store that has just been opened knows no tenants: triggers with keys of others
// are stored all the same.
func TestKeyedTriggersBesideHeldCounters(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k := newKit(openDatabase(t, Options{}), g)
	k.start(g, "a", 1)
	k.start(g, "b", 1)
	k.store.catalog.forgetTenants([]string{"a", "b"})
	release := k.holdCounters("a")
	defer release()
	list := []persistence.Trigger{k.draft(g, "a", 1)[0], k.draft(g, "b", 1)[0]}
	list[0].Key, list[1].Key = "x", "y"
	out, err := k.store.TriggerRuns(k.ctx, list, persistence.Taking{})
	require.NoError(t, err)
	require.Equal(t, persistence.KeyBusy, out.Answers[0].Result)
	require.Equal(t, persistence.Triggered, out.Answers[1].Result)
}

// A leader waits for who holds counters once, not in every call.
func TestTimersBesideHeldCounters(t *testing.T) {
	t.Parallel()
	k, g, pod, epoch := newNaps(t)
	begin := func() {
		for _, tenant := range []string{"a", "b"} {
			k.start(g, tenant, 1)
			k.complete(pod, k.claim(pod, 1)...)
		}
	}
	begin()
	out, err := k.store.FireTimers(k.ctx, epoch, 10)
	require.NoError(t, err)
	require.Equal(t, 2, out.Count)
	k.finish(pod) // all counters are there now
	begin()
	release := k.holdCounters("a")
	defer release()
	out, err = k.store.FireTimers(k.ctx, epoch, 10)
	require.NoError(t, err)
	require.Equal(t, 1, out.Count, "that of b")
	require.Equal(t, lockCalm, k.store.strained.mode(), "the next call waits for nobody that is known")
}

// newTakeovers returns a kit in which a run of each of two tenants was handed back once, so
// that all counters are there, and a pod that leads.
func newTakeovers(t *testing.T) (k *kit, g *workflow.Graph, pod, epoch int64) {
	t.Helper()
	g = storetest.Single()
	k = newKit(openDatabase(t, Options{}), g)
	pod = k.join(time.Hour)
	epoch, err := k.store.BumpEpoch(k.ctx, pod)
	require.NoError(t, err)
	for _, tenant := range []string{"a", "b"} {
		k.start(g, tenant, 1)
	}
	left := k.join(time.Hour)
	require.Len(t, k.claim(left, 10), 2)
	_, err = k.store.LeavePod(k.ctx, left)
	require.NoError(t, err)
	return k, g, pod, epoch
}

// A leader looks again soon at what a dead pod holds of a tenant whose counters
// somebody else has, and takes over the rest at once.
func TestTakeoverBesideHeldCounters(t *testing.T) {
	t.Parallel()
	k, _, pod, epoch := newTakeovers(t)
	dead := k.join(time.Hour)
	require.Len(t, k.claim(dead, 10), 2)
	k.exec(`update {schema}.pods set expires_at = now() - interval '1 second' where id = $1`, dead)
	release := k.holdCounters("a")
	out, err := k.store.ExpirePods(k.ctx, epoch, 3, 10, time.Time{})
	require.NoError(t, err)
	require.Equal(t, []int64{dead}, out.Pods)
	require.Equal(t, lockCalm, k.store.strained.mode())
	require.Equal(t, 1, out.Tasks, "that of b")
	require.Equal(t, out.Now.Add(heldAgain), out.NextExpiry)
	release()
	k.askAgain()
	out, err = k.store.ExpirePods(k.ctx, epoch, 3, 10, time.Time{})
	require.NoError(t, err)
	require.Equal(t, 1, out.Tasks)
	k.finish(pod)
	k.requireSound()
}

// Who holds a row of a death that is to be forgotten keeps no pod from being
// taken over.
func TestTakeoverBesideAHeldDeath(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k := newKit(schemas(t)(t), g)
	epoch, err := k.store.BumpEpoch(k.ctx, 1)
	require.NoError(t, err)
	k.exec("insert into {schema}.deaths (pod, at) values (-1, now() - interval '2 days'), (-2, now() - interval '2 days'), (-3, now() + interval '1 hour')")
	release := k.hold("select from {schema}.deaths where pod = -1 for update")
	deathsAfterAnother := func() int {
		dead := k.join(time.Hour)
		k.exec(`update {schema}.pods set expires_at = now() - interval '1 second' where id = $1`, dead)
		out, err := k.store.ExpirePods(k.ctx, epoch, 3, 10, time.Time{})
		require.NoError(t, err)
		require.Equal(t, []int64{dead}, out.Pods)
		return value[int](k.database, "select count(*)::int from {schema}.deaths")
	}
	require.Equal(t, 2, deathsAfterAnother(), "the one that is held and the new one")
	release()
	k.askAgain()
	require.Equal(t, 2, deathsAfterAnother(), "both new ones")
}

// More timers of a tenant whose counters somebody holds than a call chooses hide
// nobody else's between them; nor do those of runs or tasks that somebody holds, or
// timers that are held themselves.
func TestTimersAmongManyHeldOnes(t *testing.T) {
	pgtest.FullOnly(t, "it locks thousands of rows, one case after the other")
	t.Parallel()
	all := holds()
	all["timers"] = func(k *kit) func() {
		return k.hold("select from {schema}.durable_timers t join {schema}.workflow_runs r on r.id = t.run_id where r.tenant = 'a' for update of t")
	}
	for name, hold := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, g, pod, epoch := newNaps(t)
			begin := func(tenant string, n int) {
				for range n {
					k.start(g, tenant, 1)
					k.complete(pod, k.claim(pod, 1)...)
				}
			}
			begin("a", 1)
			begin("b", 1)
			_, err := k.store.FireTimers(k.ctx, epoch, 10)
			require.NoError(t, err)
			k.finish(pod)
			begin("a", 30)
			begin("b", 3)
			begin("a", 30)
			release := hold(k)
			fired := 0
			for range 3 {
				out, err := k.store.FireTimers(k.ctx, epoch, 4)
				require.NoError(t, err)
				fired += out.Count
			}
			require.Equal(t, 3, fired, "all of b")
			release()
			k.askAgain()
			for range 40 {
				out, err := k.store.FireTimers(k.ctx, epoch, 4)
				require.NoError(t, err)
				fired += out.Count
			}
			require.Equal(t, 63, fired)
			k.requireSound()
		})
	}
}

// More tasks of a dead pod that somebody holds, or the counters of whose tenant, than a
// call takes back keep nobody else's from being taken over.
func TestTakeoverAmongManyHeldOnes(t *testing.T) {
	pgtest.FullOnly(t, "it locks thousands of rows, one case after the other")
	t.Parallel()
	all := holds()
	delete(all, "children") // they have none
	for name, hold := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			takeoverBeside(t, hold)
		})
	}
}

func takeoverBeside(t *testing.T, hold func(*kit) func()) {
	t.Helper()
	k, g, pod, epoch := newTakeovers(t)
	k.finish(pod)
	var pods []int64
	for range 3 {
		k.start(g, "a", 10)
		k.start(g, "b", 2)
		dead := k.join(time.Hour)
		require.Len(t, k.claim(dead, 100), 12)
		pods = append(pods, dead)
	}
	k.exec(`update {schema}.pods set expires_at = now() - interval '1 second' where id = any($1)`, pods)
	release := hold(k)
	var taken []int
	for range 3 {
		out, err := k.store.ExpirePods(k.ctx, epoch, 3, 4, time.Time{})
		require.NoError(t, err)
		require.ElementsMatch(t, pods, out.Pods)
		taken = append(taken, out.Tasks)
		if out.Tasks < 4 {
			require.Equal(t, out.Now.Add(heldAgain), out.NextExpiry)
		}
	}
	require.Equal(t, []int{4, 2, 0}, taken, "those of b")
	release()
	k.askAgain()
	total := 0
	for range 8 {
		out, err := k.store.ExpirePods(k.ctx, epoch, 3, 4, time.Time{})
		require.NoError(t, err)
		total += out.Tasks
	}
	require.Equal(t, 30, total)
	require.Zero(t, value[int](k.database, "select count(*)::int from {schema}.pods where id = any($1)", pods))
	k.finish(pod)
	k.requireSound()
}

// While somebody is known to hold something no child is granted with the end of its parent:
// claims ask whether it could be recorded, and go around it if not.
func TestNothingIsGrantedInlineBesideAHold(t *testing.T) {
	t.Parallel()
	g := storetest.Diamond()
	k := newKit(openDatabase(t, Options{}), g)
	pod := k.join(time.Hour)
	run := k.start(g, "a", 1)[0]
	grants := k.claim(pod, 1)
	release := k.hold("select from {schema}.tasks where run_id = $1 and step = 3 for update", [16]byte(run))
	k.store.lookForHolders(k.ctx, taskIDs{{Run: run, Step: 1}})
	record := k.completion(pod, grants...)
	record.Claim, record.InlineLimit, record.InlineQueues, record.InlineHandlers = k.claimID(), 2, []string{defaultQueue}, k.handlers
	out, err := k.store.RecordTransitions(k.ctx, record)
	require.NoError(t, err)
	require.Equal(t, lifecycle.Moved, out.Answers[0].Result)
	require.Empty(t, out.Grants)
	require.Empty(t, k.claim(pod, 10), "what they need is held")
	release()
	k.askAgain()
	k.finish(pod)
	require.Equal(t, lifecycle.Completed, k.state(run))
	k.requireSound()
}

// Nor is a first task with its run: what its children need may be held, though nothing is
// that its run does.
func TestNoFirstTaskIsGrantedBesideAHold(t *testing.T) {
	t.Parallel()
	g := storetest.Diamond()
	k, pod := withCounters(t, g, "a")
	held := k.start(g, "a", 1)
	take := persistence.Taking{Pod: pod, Claim: k.claimID(), Limit: 10, Handlers: k.handlers, Queues: []string{defaultQueue}}
	release := k.hold(`select from {schema}.tenant_groups g join {schema}.tenants n using (group_id) where n.tenant = 'a' and g.lane = 0 for update of g`)
	k.store.lookForHolders(k.ctx, firstTasks(held))
	k.askAgain()
	out, err := k.store.TriggerRuns(k.ctx, k.draft(g, "a", 1), take)
	require.NoError(t, err)
	require.Equal(t, persistence.Triggered, out.Answers[0].Result)
	require.Empty(t, out.Grants)
	require.Empty(t, k.claim(pod, 10))
	release()
	k.askAgain()
	k.finish(pod)
	take.Claim = k.claimID()
	out, err = k.store.TriggerRuns(k.ctx, k.draft(g, "a", 1), take)
	require.NoError(t, err)
	require.Len(t, out.Grants, 1)
	k.complete(pod, out.Grants...)
	k.finish(pod)
	k.requireSound()
}
