package storetest

import (
	"bytes"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// familyRules are about child runs and parents that are archived, removed, locked or requeued.
var familyRules = []rule{
	{"children/apart", "a child run and its parent are archived and removed without each other", func(w *world) {
		run, id, p := w.parent(Parent(), Single())
		w.drain(10)
		p.complete(p.claimStep("a"))
		require.Equal(w.t, 1, w.archive(0).Count, "the child")
		w.drain(10)
		require.Equal(w.t, `"a"`, string(p.claimStep("after").Parents[0].Output))
		w.requireRun(run, lifecycle.Running)
		w.advance(100 * 24 * time.Hour)
		w.drop()
		w.requireGone(id)
		require.Equal(w.t, id, w.tasks(run)["child"].Child, "it is known all the same")

		careless, left, _ := w.parent(Careless(), Single())
		w.cancel(careless)
		w.archive(0)
		w.advance(100 * 24 * time.Hour)
		w.drop()
		w.requireGone(careless)
		w.requireRun(left, lifecycle.Pending)
		w.drain(10)
		w.pod().finish()
		w.requireRun(left, lifecycle.Completed)
		require.Equal(w.t, careless, w.run(left).Parent.Run)
		w.drain(10)
	}},
	{"children/gone", "a step whose child run is gone fails, once the leader has looked", func(w *world) {
		run, _, p := w.parent(Parent(), Single())
		w.drain(10)
		require.Zero(w.t, w.wakeParents().Count, "the child run continues")
		p.finish()
		require.NoError(w.t, w.h.Forget(w.ctx, run))
		w.archive(0) // a span is kept from its last run on
		w.advance(100 * 24 * time.Hour)
		w.drop()
		w.drain(10)
		w.requireTasks(run, states{"child": "waiting"})
		require.Equal(w.t, 1, w.wakeParents().Count)
		w.drain(10)
		require.Equal(w.t, lifecycle.ClassChildGone, w.tasks(run)["child"].Class)
		w.requireRun(run, lifecycle.Failed)
	}},
	{"children/looked", "the leader looks at all steps that wait for child runs, in pages", func(w *world) {
		g, child := Parent(), Single()
		w.with(g, child)
		p := w.pod()
		for range 5 {
			w.begins(p, w.start(g), child)
		}
		var after workflow.TaskID
		for range 2 {
			out := call(w.store.WakeParents(w.ctx, w.leader, after, 2)).must(w)
			require.NotEqual(w.t, workflow.TaskID{}, out.Next)
			require.Positive(w.t, bytes.Compare(out.Next.Run[:], after.Run[:]))
			after = out.Next
		}
		require.Equal(w.t, persistence.Woken{}, call(w.store.WakeParents(w.ctx, w.leader, after, 2)).must(w))
		old := w.leader
		w.bumpEpoch()
		call(w.store.WakeParents(w.ctx, old, workflow.TaskID{}, 10)).fails(w, persistence.ErrDeposed)
	}},
	{"children/found", "the leader finds a step whose child run has ended if nothing will tell it, and a run once", func(w *world) {
		const n = 3
		g, child := Many(n), Single()
		w.with(g, child)
		p := w.pod()
		run := w.start(g)
		p.complete(p.claimStep("make"))
		transitions := make([]persistence.Transition, 0, n)
		for _, grant := range p.claim(10) {
			transitions = append(transitions, w.yields(grant, child))
		}
		p.report(transitions...)
		w.drain(10)
		ends := p.claim(10)
		p.complete(ends[:n-1]...)
		require.Equal(w.t, persistence.Woken{}, w.wakeParents(), "it will be told")
		require.NoError(w.t, w.h.Forget(w.ctx, run))
		w.drain(10)
		w.requireRun(run, lifecycle.Running)
		require.Equal(w.t, persistence.Woken{Count: 1, Wake: persistence.Wake{Submitted: true}}, w.wakeParents())
		require.Equal(w.t, persistence.Woken{}, w.wakeParents(), "it will be told by now")
		w.drain(10)
		waiting := 0
		for _, task := range w.tasks(run) {
			if task.State == lifecycle.Waiting {
				waiting++
			}
		}
		require.Equal(w.t, 1, waiting)
		p.complete(ends[n-1:]...)
		w.drain(10)
		w.requireRun(run, lifecycle.Completed)
	}},
	{"children/locks", "a child run ends while its parent is locked, and the parent is canceled while a child is", func(w *world) {
		run, id, p := w.parent(Parent(), Single())
		w.drain(10)
		release := w.block(Blocked{Locked: run})
		p.finish()
		w.requireRun(id, lifecycle.Completed)
		require.Positive(w.t, w.drain(10).Again)
		release()
		w.eventually("the parent has heard", func() bool {
			w.drain(10)
			return w.tasks(run)["child"].State == lifecycle.Completed
		})
		p.finish()

		second, child, _ := w.parent(Parent(), Single())
		w.drain(10)
		release = w.block(Blocked{Locked: child})
		w.cancel(second)
		w.requireRun(second, lifecycle.Canceled)
		w.drain(10)
		release()
		w.eventually("the child has heard", func() bool {
			w.drain(10)
			return w.run(child).State == lifecycle.Canceled
		})
	}},
	{"children/requeue", "a run that continues the parent begins another child run, with the same keys", func(w *world) {
		run, id, p := w.parent(Parent(), Single())
		w.drain(10)
		keys := p.claimStep("a")
		p.fail(keys)
		w.drain(10)
		w.requireRun(run, lifecycle.Failed)
		answer := w.goOn("child", persistence.RequeueOrder{})
		rest := p.takeOver()
		require.Equal(w.t, run, rest["child"].KeyRun)
		t := w.yields(rest["child"], Single())
		t.Child.KeyRun = persistence.ChildKeys(rest["child"].KeyRun, "child")
		p.report(t)
		w.drain(10)
		require.NotEqual(w.t, id, t.Child.Run)
		again := p.claimStep("a")
		require.Equal(w.t, keys.KeyRun, again.KeyRun)
		p.complete(again)
		w.drain(10)
		p.finish()
		w.requireRun(answer.Run, lifecycle.Completed)
		require.Equal(w.t, id, w.tasks(run)["child"].Child)
		require.Equal(w.t, t.Child.Run, w.tasks(answer.Run)["child"].Child)
	}},
	{"children/abandoned", "a run that its parent abandoned hears of its own child run, and continues", func(w *world) {
		middle, child := Parent(), Single()
		g := parentOf("distant", middle, workflow.ChildSpec{Abandons: true})
		w.with(g, middle, child)
		p := w.pod()
		run := w.start(g)
		between := w.begins(p, run, middle)
		w.drain(10)
		w.begins(p, between, child)
		w.cancel(run)
		w.requireRun(run, lifecycle.Canceled)
		w.drain(10)
		p.complete(p.claimStep("a"))
		w.drain(10)
		require.False(w.t, w.run(between).Canceling)
		p.finish()
		w.requireRun(between, lifecycle.Completed)
		w.drain(10)
	}},
	{"children/at_once", "the end of a child run is told if it ends as it begins", func(w *world) {
		g, child := Parent(), Single()
		w.with(g, child)
		p := w.pod()
		run := w.start(g)
		p.complete(p.claimStep("make"))
		rest := p.claimAll()
		t := w.yields(rest["child"], child)
		t.Child.Edges = []persistence.EdgeResult{{Child: "a", Flags: lifecycle.FlagSkip}}
		p.report(t, completion(rest["side"]))
		for w.drain(10).Wake.Submitted {
			w.requireRun(t.Child.Run, lifecycle.Completed)
		}
		w.requireTasks(run, states{"child": "skipped", "after": "skipped"})
		w.requireRun(run, lifecycle.Completed)
	}},
	{"children/attempts", "of two attempts that are reported together, the one that is not over begins the child run", func(w *world) {
		g, child := Parent(), Single()
		w.with(g, child)
		p := w.pod()
		run := w.start(g)
		p.complete(p.claimStep("make"))
		first := p.claimAll()
		over := w.yields(first["child"], child)
		p.report(completion(first["side"]), persistence.Transition{Task: over.Task, Epoch: over.Epoch, Report: lifecycle.Released})
		t := w.yields(p.claimStep("child"), child)
		w.requireRecorded(p.send(p.batch(over, t)), lifecycle.Stale, lifecycle.Moved)
		require.Equal(w.t, t.Child.Run, w.tasks(run)["child"].Child)
		w.requireGone(over.Child.Run)
	}},
	{"children/older_pods", "a run with child runs waits while a living pod of an older version does", func(w *world) {
		g := w.with(Parent())
		pod, _, err := w.store.JoinPod(w.ctx, persistence.PodInfo{Name: "old", Queues: []string{defaultQueue}, Slots: 1, TTL: leaseTTL, Protocol: 3})
		require.NoError(w.t, err)
		d := w.draft(g)
		w.requireTriggers(w.ask(d), persistence.Triggered)
		require.Zero(w.t, w.drain(10).Count)
		w.requireRun(d.Run, lifecycle.Pending)
		call(w.store.LeavePod(w.ctx, pod)).must(w)
		require.Equal(w.t, 1, w.drain(10).Count)
		w.requireTasks(d.Run, states{"make": "queued"})
	}},
}

// wakeParents looks at all steps that wait for child runs.
func (w *world) wakeParents() persistence.Woken {
	w.t.Helper()
	return call(w.store.WakeParents(w.ctx, w.leader, workflow.TaskID{}, 10)).must(w)
}
