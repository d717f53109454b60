package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// Blocked names rows that a case keeps from the store. Exactly one field is set.
type Blocked struct {
	Locked     workflow.RunID // an outside session locks the rows of this run
	Unreadable workflow.RunID // the rows of this run are on a damaged page
	Tenant     string         // an outside session locks the fairness counters of this tenant
	Definition workflow.Hash  // an operator deletes this definition, of a program that has ended
}

// ErrCannotBlock is the answer of a Harness.Block that cannot block such rows.
var ErrCannotBlock = errors.New("rows of this kind cannot be blocked")

var blockedRules = []rule{
	{"blocked/locked_run", "a locked run waits alone, and continues after the release", func(w *world) {
		g, p := w.withPod(Diamond())
		held := w.startOf(g, tenantA)
		p.complete(p.claimStep("a"))
		b := p.claimStep("b") // c stays in the queue
		free := w.startOf(g, tenantB)
		other := p.ask(p.request(10)).Grants
		require.Len(w.t, other, 2)
		require.Equal(w.t, free, other[1].Task.Run)
		p.report(persistence.Transition{Task: other[0].Task, Epoch: other[0].Epoch, Report: lifecycle.Released})
		release := w.block(Blocked{Locked: held})
		w.requireRecorded(p.send(p.batch(completion(b), completion(other[1]))), lifecycle.Busy, lifecycle.Moved)
		claimed := p.ask(p.request(10))
		require.Equal(w.t, []workflow.RunID{free, free}, runsOf(claimed.Grants))
		require.Positive(w.t, claimed.Again)
		call(w.store.CancelRun(w.ctx, persistence.Cancel{Run: held, Tenant: tenantA})).fails(w, persistence.ErrConflict)
		p.complete(claimed.Grants...)
		p.finish()
		w.requireRun(free, lifecycle.Completed)
		release()
		w.eventually("the completion is recorded", func() bool {
			return p.send(p.batch(completion(b))).Answers[0].Result == lifecycle.Moved
		})
		p.drains(held)
	}},
	{"blocked/tenant", "a tenant whose counters are locked waits alone, and continues after the release", func(w *world) {
		g, p := w.withPod(Single())
		first := []workflow.RunID{w.startOf(g, tenantA), w.startOf(g, tenantB)}
		p.finish()
		submitted := append(w.drafts(g, tenantA, 1), w.drafts(g, tenantB, 1)...)
		w.submit(submitted...)
		release := w.block(Blocked{Tenant: tenantA})
		both := append(w.drafts(g, tenantA, 1), w.drafts(g, tenantB, 1)...)
		w.requireTriggers(w.ask(both...), persistence.KeyBusy, persistence.Triggered)
		drained := w.drain(10)
		require.Equal(w.t, 1, drained.Count)
		require.Positive(w.t, drained.Again)
		p.finish()
		w.requireRun(both[1].Run, lifecycle.Completed)
		w.requireRun(submitted[1].Run, lifecycle.Completed)
		release()
		p.drains(append(first, submitted[0].Run)...)
	}},
	{"blocked/unreadable", "a damaged run is told by its reads, and everything else continues", func(w *world) {
		g, p := w.withPod(Single())
		damaged, fine := w.startOf(g, tenantA), w.startOf(g, tenantB)
		release := w.block(Blocked{Unreadable: damaged})
		call(w.store.Run(w.ctx, tenantA, damaged)).fails(w, persistence.ErrUnavailable)
		call(w.store.Tasks(w.ctx, tenantA, damaged)).fails(w, persistence.ErrUnavailable)
		call(persistence.Payload(w.ctx, w.store, workflow.TaskID{Run: damaged, Step: lifecycle.RunStep})).fails(w, persistence.ErrUnavailable)
		claimed := p.ask(p.request(10))
		require.Equal(w.t, []workflow.RunID{fine}, runsOf(claimed.Grants))
		require.Positive(w.t, claimed.Again)
		p.complete(claimed.Grants...)
		w.requireRun(fine, lifecycle.Completed)
		release()
		p.drains(damaged)
	}},
	{"blocked/definition", "runs of a missing definition wait until it is registered again", func(w *world) {
		gone, kept := Nap(blockedNap), Single()
		w.with(gone, kept)
		p := w.pod()
		run := w.start(gone)
		p.complete(p.claimStep("before"))
		queued, other := w.start(gone), w.start(kept)
		w.block(Blocked{Definition: gone.Hash})
		w.advance(blockedNap)
		fired := w.fire()
		require.Zero(w.t, fired.Count+fired.Orphans)
		claimed := p.ask(p.request(10))
		require.Equal(w.t, []workflow.RunID{other}, runsOf(claimed.Grants))
		require.Positive(w.t, claimed.Again)
		p.complete(claimed.Grants...)
		w.with(gone) // its program starts again
		p.drains(run)
		w.advance(blockedNap)
		p.drains(run, queued)
	}},
	{"blocked/timers", "the timer of a locked run waits and delays no other", func(w *world) {
		g, p := w.withPod(Nap(blockedNap))
		held := w.startOf(g, tenantA)
		p.finish()
		free := w.startOf(g, tenantB)
		p.finish()
		w.advance(blockedNap)
		release := w.block(Blocked{Locked: held})
		fired := w.fire()
		require.Equal(w.t, 1, fired.Count)
		require.False(w.t, fired.Next.IsZero())
		w.requireTasks(free, states{"nap": "completed"})
		release()
		p.drains(held, free)
	}},
	{"blocked/dead_pod", "a task of a locked run stays with its dead pod", func(w *world) {
		g, p := w.withPod(Single())
		held, free := w.startOf(g, tenantA), w.startOf(g, tenantB)
		require.Len(w.t, p.claim(10), 2)
		release := w.block(Blocked{Locked: held})
		w.advance(leaseTTL)
		out := w.expire()
		require.Equal(w.t, []int64{p.id}, out.Pods)
		require.Equal(w.t, 1, out.Tasks)
		require.Equal(w.t, []int64{p.id}, w.expire().Pods)
		w.requireTasks(free, states{"a": "queued"})
		release()
		w.expires()
		w.pod().drains(held, free)
	}},
	{"blocked/leave", "a task of a locked run stays with a pod that leaves", func(w *world) {
		g, p := w.withPod(Single())
		held, free := w.startOf(g, tenantA), w.startOf(g, tenantB)
		require.Len(w.t, p.claim(10), 2)
		release := w.block(Blocked{Locked: held})
		call(w.store.LeavePod(w.ctx, p.id)).must(w)
		w.requireTasks(free, states{"a": "queued"})
		release()
		w.requireTasks(held, states{"a": "running"})
		w.advance(leaseTTL)
		w.expires()
		w.pod().drains(held, free)
	}},
	{"timers/orphans", "the timer of a deleted run is removed and counted", func(w *world) {
		w.with(Single())
		require.NoError(w.t, w.h.SetTimer(w.ctx, snapshot.Timer{Run: w.runID(), Kind: lifecycle.SleepTimer, At: w.fire().Now.Add(-time.Second)}))
		require.Equal(w.t, 1, w.fire().Orphans)
		require.Empty(w.t, w.snapshot().Timers)
	}},
}

// block blocks rows, or skips the case where that cannot be done.
func (w *world) block(b Blocked) (release func()) {
	w.t.Helper()
	if w.h.Block == nil {
		w.t.Skip("this store has no rows to block")
	}
	release, err := w.h.Block(w.ctx, b)
	if errors.Is(err, ErrCannotBlock) {
		w.t.Skip(err)
	}
	require.NoError(w.t, err)
	return release
}

// drainWithin bounds how long a store may take after a release.
const drainWithin = 30 * time.Second

// blockedNap is a sleep that leases outlast.
const blockedNap = leaseTTL / 4

// eventually does something again and again until it is done.
func (w *world) eventually(what string, done func() bool) {
	w.t.Helper()
	ticker, over := time.NewTicker(50*time.Millisecond), time.After(drainWithin)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-over:
			require.Fail(w.t, "not done within the bound", what)
			return
		}
	}
}

// drains has runs end after a release.
func (p *worker) drains(runs ...workflow.RunID) {
	w := p.w
	w.t.Helper()
	w.eventually("all runs end", func() bool {
		w.fire()
		w.drain(100)
		p.finish()
		return !slices.ContainsFunc(runs, func(run workflow.RunID) bool { return !w.run(run).State.Terminal() })
	})
}

// expires has the dead pods give up their tasks after a release.
func (w *world) expires() {
	w.t.Helper()
	w.eventually("no dead pod has tasks", func() bool {
		w.expire()
		return len(w.expire().Pods) == 0
	})
}

// startOf stores one run of a tenant.
func (w *world) startOf(g *workflow.Graph, tenant string) workflow.RunID {
	w.t.Helper()
	d := w.drafts(g, tenant, 1)
	w.trigger(d...)
	return d[0].Run
}
