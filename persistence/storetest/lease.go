package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var leaseRules = []rule{
	{"lease/numbers", "every start of a pod gets a number of its own", func(w *world) {
		seen := map[int64]bool{}
		for range 5 {
			p := w.pod()
			require.False(w.t, seen[p.id])
			seen[p.id] = true
			call(w.store.LeavePod(w.ctx, p.id)).must(w)
		}
	}},
	{"lease/renew", "a renewal extends the lease from the store's now and counts living pods", func(w *world) {
		p := w.pod()
		w.pod()
		out := p.renew()
		require.Equal(w.t, 2, out.Pods)
		require.WithinDuration(w.t, out.Now.Add(leaseTTL), out.Expires, time.Millisecond)
		require.Empty(w.t, out.Lost)
		require.Empty(w.t, out.Unheld)
		require.Empty(w.t, out.Canceling)
	}},
	{"lease/load", "a renewal says what use wakes are to the pod, and is told how many wait for them", func(w *world) {
		p, q, gone := w.pod(), w.pod(), w.pod()
		renewed := func(pod *worker, load persistence.Load) []int {
			out := call(w.store.RenewPod(w.ctx, persistence.Renewal{Pod: pod.id, TTL: leaseTTL, Load: load})).must(w)
			return []int{out.Pods, out.Waiting, out.Idle, out.Place}
		}
		const idle, full, busy = persistence.LoadIdle, persistence.LoadFull, persistence.LoadBusy
		require.Equal(w.t, []int{3, 3, 3, 0}, renewed(p, idle), "a pod is idle until it says otherwise")
		require.Equal(w.t, []int{3, 3, 3, 1}, renewed(q, idle))
		require.Equal(w.t, []int{3, 3, 3, 2}, renewed(gone, idle))
		require.Equal(w.t, []int{3, 3, 2, 0}, renewed(p, full), "its own word counts at once")
		require.Equal(w.t, []int{3, 3, 2, 1}, renewed(gone, idle), "who is full is not in the order")
		require.Equal(w.t, []int{3, 2, 1, 0}, renewed(q, busy))
		call(w.store.LeavePod(w.ctx, gone.id)).must(w)
		require.Equal(w.t, []int{2, 0, 0, 0}, renewed(p, busy), "who has left does not wait")
		require.Equal(w.t, []int{2, 1, 1, 0}, renewed(q, idle))
	}},
	{"lease/client", "a pod without slots lives like others, but is not counted with those that execute", func(w *world) {
		g, p := w.withPod(Single())
		client := w.client()
		out := p.renew()
		require.Equal(w.t, []int{2, 1}, []int{out.Pods, out.Executing})
		out = call(w.store.RenewPod(w.ctx, persistence.Renewal{Pod: client, TTL: leaseTTL})).must(w)
		require.Equal(w.t, []int{2, 1}, []int{out.Pods, out.Executing})
		call(w.store.LeavePod(w.ctx, p.id)).must(w)
		run := w.start(g)
		require.Equal(w.t, 1, w.park().Parked, "the client registers no handler")
		require.True(w.t, w.tasks(run)["a"].Parked)
	}},
	{"lease/late", "a pod that is late but was not declared dead keeps its tasks", func(w *world) {
		run, p := w.startWithPod(Single())
		g := p.claimStep("a")
		w.advance(10 * leaseTTL)
		require.Empty(w.t, p.renew(g).Lost)
		require.Empty(w.t, w.expire().Pods)
		p.complete(g)
		w.requireRun(run, lifecycle.Completed)
	}},
	{"lease/reconcile", "a renewal tells what is no longer the pod's and what the pod does not know of", func(w *world) {
		list := w.drafts(w.with(Single()), tenantA, 4)
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
	}},
	{"lease/ended", "a renewal finds what is unheld of a claim whose other tasks have ended, whatever ended them", func(w *world) {
		list := w.drafts(w.with(Single()), tenantA, 6)
		w.trigger(list...)
		p := w.pod()
		p.renew()
		grants := p.claimExactly(6, 6)
		p.complete(grants[0])
		p.fail(grants[1])
		p.report(retry(grants[2], time.Hour), lost(grants[3]))
		w.cancel(list[4].Run)
		p.fail(grants[4])
		again := p.claimStep("a")
		require.Equal(w.t, grants[3].Task, again.Task)
		unheld := []persistence.Held{
			{Task: again.Task, Epoch: again.Epoch}, {Task: grants[5].Task, Epoch: grants[5].Epoch},
		}
		for range 2 {
			require.Equal(w.t, unheld, p.renew().Unheld)
			require.Len(w.t, w.snapshot().Claims, 7, "six of one claim, and one")
		}
		p.complete(grants[5])
		require.Equal(w.t, unheld[:1], p.renew().Unheld)
		require.Len(w.t, w.snapshot().Claims, 1)
		p.complete(again)
		require.Empty(w.t, p.renew().Unheld)
		require.Empty(w.t, w.snapshot().Claims)
	}},
	{"lease/grown", "a renewal finds what a repeated record has added to a claim whose tasks had ended", func(w *world) {
		_, p := w.backlog(2, Chain(2))
		p.renew()
		roots := p.claim(2)
		record := p.inline(10, roots[0])
		p.complete(p.send(record).Grants...)
		record.Transitions = append(record.Transitions, completion(roots[1]))
		added := p.send(record).Grants
		require.Len(w.t, added, 1)
		require.Equal(w.t, record.Claim, added[0].Claim)
		require.Equal(w.t, []persistence.Held{{Task: added[0].Task, Epoch: added[0].Epoch}}, p.renew().Unheld)
		p.complete(added...)
		require.Empty(w.t, p.renew().Unheld)
		require.Empty(w.t, w.snapshot().Claims)
	}},
	{"lease/progress", "progress is kept for the next attempt, by the holder only", func(w *world) {
		w.start(w.with(Single()))
		p, q := w.pod(), w.pod()
		grant := p.claimStep("a")
		renewal := func(pod *worker, epoch int64, progress []byte) persistence.Renewed {
			return call(w.store.RenewPod(w.ctx, persistence.Renewal{
				Pod: pod.id, TTL: leaseTTL, Held: []persistence.Held{{Task: grant.Task, Epoch: epoch, Progress: progress}},
			})).must(w)
		}
		require.Empty(w.t, renewal(p, grant.Epoch, []byte(`1`)).Lost)
		require.Empty(w.t, renewal(p, grant.Epoch, nil).Lost, "nil leaves it as it is")
		require.Len(w.t, renewal(q, grant.Epoch, []byte(`2`)).Lost, 1)
		require.Len(w.t, renewal(p, grant.Epoch-1, []byte(`3`)).Lost, 1)
		p.report(lost(grant))
		require.Equal(w.t, `1`, string(p.claimStep("a").LastProgress))
	}},
	{"lease/leave", "a pod that leaves hands back its tasks uncharged", func(w *world) {
		_, p := w.backlog(3, Single())
		grants := p.claim(3)
		p.complete(grants[0])
		wake := call(w.store.LeavePod(w.ctx, p.id)).must(w)
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
	}},
	{"lease/leave_again", "leaving twice does nothing", func(w *world) {
		p := w.pod()
		for range 2 {
			require.Empty(w.t, call(w.store.LeavePod(w.ctx, p.id)).must(w).Ready)
		}
		call(w.store.RenewPod(w.ctx, persistence.Renewal{Pod: p.id, TTL: leaseTTL})).fails(w, persistence.ErrPodDead)
	}},
	{"lease/ping", "a ping is answered, without a pod", func(w *world) {
		require.NoError(w.t, w.store.Ping(w.ctx, 16<<10))
	}},
}

var suspectRules = []rule{
	{"suspects/apart", "a claim takes one task at most that was lost twice", func(w *world) {
		g, p := w.with(Single()), w.pod()
		w.loseTwice(g, p, 3)
		w.trigger(w.drafts(g, tenantA, 1)...)
		next := p.claim(10)
		require.Len(w.t, next, 2, "a suspect and another")
		require.Equal(w.t, int32(2), next[0].Lost+next[1].Lost)
		require.NotEqual(w.t, next[0].Suspect, next[1].Suspect, "the pod is told which")
		require.Len(w.t, w.pod().claim(10), 1)
	}},
	{"suspects/excused", "in a loop of crashes a task is none until it may be failed", func(w *world) {
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
	}},
	{"suspects/only_if_asked", "a pod that has one takes no other, and gets what lies behind", func(w *world) {
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
	}},
}

func lost(g persistence.Grant) persistence.Transition {
	return persistence.Transition{Task: g.Task, Epoch: g.Epoch, Report: lifecycle.Lost}
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
