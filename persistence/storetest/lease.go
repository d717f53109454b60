package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

func leaseRules() []rule {
	return []rule{
		{"lease/numbers", "every start of a pod gets a number of its own", leaseNumbers},
		{"lease/renew", "a renewal extends the lease from the store's now and counts living pods", leaseRenew},
		{"lease/load", "a renewal says what use wakes are to the pod, and is told how many wait for them", leaseLoad},
		{"lease/late", "a pod that is late but was not declared dead goes on with its tasks", leaseLate},
		{"lease/reconcile", "a renewal tells what is no longer the pod's and what the pod does not know of", leaseReconcile},
		{"lease/progress", "progress is kept for the next attempt, by the holder only", leaseProgress},
		{"lease/leave", "a pod that leaves hands back its tasks uncharged", leaseLeave},
		{"lease/leave_again", "leaving twice does nothing", leaseLeaveAgain},
	}
}

func expiryRules() []rule {
	return []rule{
		{"expiry/takes_tasks", "a pod whose lease ran out is declared dead and its tasks go back, one loss each", expiryTakes},
		{"expiry/spares_the_living", "a pod in its lease keeps its tasks", expirySpares},
		{"expiry/fences", "a dead pod can neither claim, record nor renew", expiryFences},
		{"expiry/poison", "a task that was lost too often fails as a poison pill", expiryPoison},
		{"expiry/others_die_too", "where other pods die as often, a task is taken for a poison pill late", expiryOthers},
		{"expiry/others_died_long_ago", "deaths of long ago excuse no task", expiryLongAgo},
		{"expiry/limit", "a pod with tasks left stays dead and in the next answer", expiryLimit},
		{"expiry/unclaimed_reply", "a task whose grant never reached its pod is handed back by the pulse", expiryUnheld},
		{"expiry/next", "the housekeeper is told when to come back", expiryNext},
		{"expiry/many_tasks_of_a_run", "tasks of one run that were on a dead pod all go back", expirySameRun},
	}
}

func suspectRules() []rule {
	return []rule{
		{"suspects/apart", "a claim takes one task at most that was lost twice", suspectsApart},
		{"suspects/excused", "in a loop of crashes a task is none until it may be failed", suspectsExcused},
		{"suspects/only_if_asked", "a pod that has one takes no other, and gets what lies behind", suspectsRefused},
	}
}

func lost(g persistence.Grant) persistence.Transition {
	return persistence.Transition{Task: g.Task, Epoch: g.Epoch, Report: lifecycle.Lost}
}

func leaseNumbers(w *world) {
	seen := map[int64]bool{}
	for range 5 {
		p := w.pod()
		require.False(w.t, seen[p.id])
		seen[p.id] = true
		_, err := w.store.LeavePod(w.ctx, p.id)
		require.NoError(w.t, err)
	}
}

func leaseRenew(w *world) {
	p := w.pod()
	w.pod()
	out := p.renew()
	require.Equal(w.t, 2, out.Pods)
	require.WithinDuration(w.t, out.Now.Add(leaseTTL), out.Expires, time.Millisecond)
	require.Empty(w.t, out.Lost)
	require.Empty(w.t, out.Unheld)
	require.Empty(w.t, out.Canceling)
}

func leaseLate(w *world) {
	run := w.start(w.with(Single()))
	p := w.pod()
	g := p.claimStep("a")
	w.advance(10 * leaseTTL)
	out := p.renew(g)
	require.Empty(w.t, out.Lost)
	require.Empty(w.t, w.expire().Pods)
	p.complete(g)
	w.requireRun(run, lifecycle.Completed)
}

func leaseReconcile(w *world) {
	g := w.with(Single())
	list := w.drafts(g, tenantA, 4)
	w.trigger(list...)
	p := w.pod()
	grants := p.claim(4)
	p.report(persistence.Transition{Task: grants[0].Task, Epoch: grants[0].Epoch, Report: lifecycle.Released})
	w.cancel(list[1].Run)
	out := p.renew(grants[0], grants[1])
	require.Equal(w.t, []persistence.Held{{Task: grants[0].Task, Epoch: grants[0].Epoch}}, out.Lost)
	require.Equal(w.t, []workflow.RunID{list[1].Run}, out.Canceling)
	require.Equal(w.t, []persistence.Held{
		{Task: grants[2].Task, Epoch: grants[2].Epoch}, {Task: grants[3].Task, Epoch: grants[3].Epoch},
	}, out.Unheld)
	again := p.claimStep("a")
	require.Equal(w.t, grants[0].Task, again.Task)
	out = p.renew(again, grants[1], grants[2], grants[3])
	require.Empty(w.t, out.Lost)
	require.Empty(w.t, out.Unheld)
}

func leaseLoad(w *world) {
	p, q, gone := w.pod(), w.pod(), w.pod()
	renewed := func(pod *worker, load persistence.Load) []int {
		out, err := w.store.RenewPod(w.ctx, persistence.Renewal{Pod: pod.id, TTL: leaseTTL, Load: load})
		require.NoError(w.t, err)
		return []int{out.Pods, out.Waiting, out.Idle, out.Place}
	}
	const idle, full, busy = persistence.LoadIdle, persistence.LoadFull, persistence.LoadBusy
	require.Equal(w.t, []int{3, 3, 3, 0}, renewed(p, idle), "a pod is idle until it says otherwise")
	require.Equal(w.t, []int{3, 3, 3, 1}, renewed(q, idle))
	require.Equal(w.t, []int{3, 3, 3, 2}, renewed(gone, idle))
	require.Equal(w.t, []int{3, 3, 2, 0}, renewed(p, full), "its own word counts at once")
	require.Equal(w.t, []int{3, 3, 2, 1}, renewed(gone, idle), "who is full is not in the order")
	require.Equal(w.t, []int{3, 2, 1, 0}, renewed(q, busy))
	_, err := w.store.LeavePod(w.ctx, gone.id)
	require.NoError(w.t, err)
	require.Equal(w.t, []int{2, 0, 0, 0}, renewed(p, busy), "who has left does not wait")
	require.Equal(w.t, []int{2, 1, 1, 0}, renewed(q, idle))
}

func leaseProgress(w *world) {
	g := w.with(Single())
	w.start(g)
	p, q := w.pod(), w.pod()
	grant := p.claimStep("a")
	renewal := func(pod *worker, epoch int64, progress []byte) persistence.Renewed {
		out, err := w.store.RenewPod(w.ctx, persistence.Renewal{
			Pod: pod.id, TTL: leaseTTL, Held: []persistence.Held{{Task: grant.Task, Epoch: epoch, Progress: progress}},
		})
		require.NoError(w.t, err)
		return out
	}
	require.Empty(w.t, renewal(p, grant.Epoch, []byte(`1`)).Lost)
	require.Empty(w.t, renewal(p, grant.Epoch, nil).Lost, "nil leaves it as it is")
	require.Len(w.t, renewal(q, grant.Epoch, []byte(`2`)).Lost, 1)
	require.Len(w.t, renewal(p, grant.Epoch-1, []byte(`3`)).Lost, 1)
	p.report(lost(grant))
	require.Equal(w.t, `1`, string(p.claimStep("a").LastProgress))
}

func leaseLeave(w *world) {
	g := w.with(Single())
	w.trigger(w.drafts(g, tenantA, 3)...)
	p := w.pod()
	grants := p.claim(3)
	p.complete(grants[0])
	wake, err := w.store.LeavePod(w.ctx, p.id)
	require.NoError(w.t, err)
	require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 2}}, wake.Ready)
	tables := w.snapshot()
	require.Empty(w.t, tables.Pods)
	require.Empty(w.t, tables.Claims)
	again := w.pod().claim(10)
	require.Len(w.t, again, 2)
	for _, grant := range again {
		require.Equal(w.t, int32(1), grant.Attempt)
		require.Zero(w.t, grant.Lost)
	}
}

func leaseLeaveAgain(w *world) {
	p := w.pod()
	for range 2 {
		wake, err := w.store.LeavePod(w.ctx, p.id)
		require.NoError(w.t, err)
		require.Empty(w.t, wake.Ready)
	}
	_, err := w.store.RenewPod(w.ctx, persistence.Renewal{Pod: p.id, TTL: leaseTTL})
	require.ErrorIs(w.t, err, persistence.ErrPodDead)
}

func expiryTakes(w *world) {
	run := w.start(w.with(Single()))
	p := w.pod()
	g := p.claimStep("a")
	w.advance(leaseTTL)
	out := w.expire()
	require.Equal(w.t, []int64{p.id}, out.Pods)
	require.Equal(w.t, 1, out.Tasks)
	require.Zero(w.t, out.Live)
	require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 1}}, out.Wake.Ready)
	w.requireTasks(run, states{"a": "queued"})
	require.Equal(w.t, []string{"queued", "started", "lost"}, w.events(run)["a"])
	again := w.pod().claimStep("a")
	require.Equal(w.t, int32(1), again.Lost)
	require.Equal(w.t, int32(1), again.Attempt)
	require.Equal(w.t, g.Epoch+2, again.Epoch)
	require.Empty(w.t, w.expire().Pods)
}

func expirySpares(w *world) {
	run := w.start(w.with(Single()))
	p := w.pod()
	g := p.claimStep("a")
	w.advance(leaseTTL / 2)
	out := w.expire()
	require.Empty(w.t, out.Pods)
	require.Equal(w.t, 1, out.Live)
	w.requireTasks(run, states{"a": "running"})
	p.complete(g)
}

func expiryFences(w *world) {
	g := w.with(Single())
	w.trigger(w.drafts(g, tenantA, 2)...)
	p := w.pod()
	grant := p.claimStep("a")
	w.advance(leaseTTL)
	w.expire()
	_, err := w.store.ClaimTasks(w.ctx, p.request(1))
	require.ErrorIs(w.t, err, persistence.ErrPodDead)
	_, err = w.store.RecordTransitions(w.ctx, p.batch(completion(grant)))
	require.ErrorIs(w.t, err, persistence.ErrPodDead)
	_, err = w.store.RenewPod(w.ctx, persistence.Renewal{Pod: p.id, TTL: leaseTTL})
	require.ErrorIs(w.t, err, persistence.ErrPodDead)
	require.Len(w.t, w.pod().claim(10), 2)
}

func expiryPoison(w *world) {
	run := w.start(w.with(Chain(2)))
	for i := range maxLost {
		g := w.pod().claimStep("s0")
		require.Equal(w.t, int32(i), g.Lost)
		w.advance(leaseTTL)
		require.Equal(w.t, 1, w.expire().Tasks)
	}
	w.requireTasks(run, states{"s0": "failed", "s1": "canceled"})
	row := w.run(run)
	require.Equal(w.t, lifecycle.Failed, row.State)
	require.Equal(w.t, "lost", row.Class)
	require.Equal(w.t, int32(maxLost), w.tasks(run)["s0"].Lost)
}

func expiryOthers(w *world) {
	run := w.start(w.with(Single()))
	for range 2 * maxLost {
		w.requireTasks(run, states{"a": "queued"})
		w.pod().claimStep("a")
		w.pod()
		w.advance(leaseTTL)
		require.Len(w.t, w.expire().Pods, 2)
	}
	w.requireTasks(run, states{"a": "failed"})
	require.Equal(w.t, int32(2*maxLost), w.tasks(run)["a"].Lost)
}

func expiryLongAgo(w *world) {
	run := w.start(w.with(Single()))
	for range maxLost {
		w.pod()
	}
	w.advance(leaseTTL)
	require.Len(w.t, w.expire().Pods, maxLost)
	w.advance(persistence.DeathsKept - maxLost*leaseTTL)
	for i := range maxLost {
		require.Equal(w.t, int32(i), w.pod().claimStep("a").Lost)
		w.advance(leaseTTL)
		w.expire()
	}
	w.requireTasks(run, states{"a": "failed"})
}

func expiryLimit(w *world) {
	g := w.with(Single())
	w.trigger(w.drafts(g, tenantA, 5)...)
	p := w.pod()
	p.claim(5)
	w.advance(leaseTTL)
	for i, want := range []int{2, 2, 1} {
		out, err := w.store.ExpirePods(w.ctx, w.leader, maxLost, 2)
		require.NoError(w.t, err)
		require.Equal(w.t, []int64{p.id}, out.Pods, "call %d", i)
		require.Equal(w.t, want, out.Tasks, "call %d", i)
		w.checkInvariants()
		if i > 0 {
			continue
		}
		_, err = w.store.RenewPod(w.ctx, persistence.Renewal{Pod: p.id, TTL: leaseTTL})
		require.ErrorIs(w.t, err, persistence.ErrPodDead)
		require.Equal(w.t, 2, w.park().Parked, "it registers nothing any more")
	}
	require.Empty(w.t, w.expire().Pods)
	require.Len(w.t, w.snapshot().Queue, 5)
}

func expiryUnheld(w *world) {
	run := w.start(w.with(Single()))
	p := w.pod()
	p.claim(1) // the reply is lost
	out := p.renew()
	require.Len(w.t, out.Unheld, 1)
	p.report(persistence.Transition{Task: out.Unheld[0].Task, Epoch: out.Unheld[0].Epoch, Report: lifecycle.Lost})
	require.Empty(w.t, p.renew().Unheld)
	require.Equal(w.t, int32(1), w.tasks(run)["a"].Lost)
	p.finish()
	w.requireRun(run, lifecycle.Completed)
}

func expiryNext(w *world) {
	require.True(w.t, w.expire().NextExpiry.IsZero())
	w.pod()
	w.advance(leaseTTL / 2)
	w.pod()
	out := w.expire()
	require.Equal(w.t, 2, out.Live)
	require.InDelta(w.t, leaseTTL/2, out.NextExpiry.Sub(out.Now), float64(leaseTTL/4))
	w.advance(leaseTTL / 2)
	out = w.expire()
	require.Len(w.t, out.Pods, 1)
	require.Equal(w.t, 1, out.Live)
}

func expirySameRun(w *world) {
	run := w.start(w.with(Fan(4)))
	p := w.pod()
	p.complete(p.claimStep("root"))
	require.Len(w.t, p.claim(10), 4)
	w.advance(leaseTTL)
	require.Equal(w.t, 4, w.expire().Tasks)
	w.requireTasks(run, states{"l0": "queued", "l1": "queued", "l2": "queued", "l3": "queued", "join": "pending"})
	for range 4 {
		q := w.pod()
		q.complete(q.claim(10)...)
	}
	w.pod().finish()
	w.requireRun(run, lifecycle.Completed)
}

// loseTwice stores n runs of one step and has a pod lose each of them twice.
func (w *world) loseTwice(g *workflow.Graph, p *worker, n int) {
	w.t.Helper()
	w.trigger(w.drafts(g, tenantA, n)...)
	for range 2 {
		grants := p.claim(10)
		require.Len(w.t, grants, n, "after one loss they are like others")
		for i := range grants {
			p.report(lost(grants[i]))
		}
	}
}

func suspectsApart(w *world) {
	g, p := w.with(Single()), w.pod()
	w.loseTwice(g, p, 3)
	w.trigger(w.drafts(g, tenantA, 1)...)
	next := p.claim(10)
	require.Len(w.t, next, 2, "a suspect and another")
	require.Equal(w.t, int32(2), next[0].Lost+next[1].Lost)
	require.NotEqual(w.t, next[0].Suspect, next[1].Suspect, "the pod is told which")
	require.Len(w.t, w.pod().claim(10), 1)
}

func suspectsExcused(w *world) {
	g := w.with(Single())
	w.trigger(w.drafts(g, tenantA, 3)...)
	for range 2 {
		p := w.pod()
		for range 7 {
			w.pod()
		}
		require.Len(w.t, p.claim(10), 3)
		w.advance(leaseTTL)
		require.Equal(w.t, 3, w.expire().Tasks)
	}
	p := w.pod()
	grants := p.claim(10)
	require.Len(w.t, grants, 3, "sixteen pods have died")
	for _, g := range grants {
		require.False(w.t, g.Suspect)
		p.report(persistence.Transition{Task: g.Task, Epoch: g.Epoch, Report: lifecycle.Released})
	}
	grants = p.claim(10)
	require.Len(w.t, grants, 3, "they come back as they were")
	p.report(lost(grants[0]), lost(grants[1]), lost(grants[2]))
	require.Len(w.t, p.claim(10), 1, "none fails that was not executed apart")
}

func suspectsRefused(w *world) {
	g, p := w.with(Single()), w.pod()
	w.loseTwice(g, p, 2)
	w.trigger(w.drafts(g, tenantA, 2)...)
	request := p.request(10)
	request.Suspects = false
	out := p.ask(request)
	require.Len(w.t, out.Grants, 2)
	for _, grant := range out.Grants {
		require.False(w.t, grant.Suspect)
	}
	require.Less(w.t, out.Scanned, 10)
}
