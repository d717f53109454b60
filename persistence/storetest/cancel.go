package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var cancelRules = []rule{
	{"cancel/nothing_running", "a run of which nothing runs is canceled at once", func(w *world) {
		run := w.start(w.with(Diamond()))
		out := w.cancel(run)
		require.Equal(w.t, lifecycle.Moved, out.Result)
		require.Equal(w.t, lifecycle.Canceled, out.State)
		require.Equal(w.t, []workflow.RunID{run}, out.Wake.Ended)
		require.Empty(w.t, out.Wake.Canceling)
		require.False(w.t, out.Now.IsZero())
		w.requireTasks(run, states{"a": "canceled", "b": "canceled", "c": "canceled", "d": "canceled"})
		row := w.run(run)
		require.True(w.t, row.Canceling)
		require.Equal(w.t, "no longer needed", row.CancelReason)
		require.Empty(w.t, w.pod().claim(10))
	}},
	{"cancel/idempotent", "canceling again changes nothing", func(w *world) {
		chain, p := w.withPod(Chain(2))
		run := w.start(chain)
		g := p.claimStep("s0")
		require.Equal(w.t, lifecycle.Moved, w.cancel(run).Result)
		before := w.snapshot()
		again := w.cancel(run)
		require.Equal(w.t, lifecycle.AlreadyYours, again.Result)
		require.Equal(w.t, lifecycle.Running, again.State)
		require.Equal(w.t, before, w.snapshot())
		p.complete(g)
		require.Equal(w.t, lifecycle.Stale, w.cancel(run).Result, "it has ended")
	}},
	{"cancel/running", "a running task keeps its epoch and its result is recorded", func(w *world) {
		run, p := w.startWithPod(Diamond())
		p.complete(p.claimStep("a"))
		b := p.claim(1)
		out := w.cancel(run)
		require.Equal(w.t, lifecycle.Running, out.State)
		require.Equal(w.t, []workflow.RunID{run}, out.Wake.Canceling)
		require.False(w.t, out.Wake.NextTimer.IsZero())
		w.requireTasks(run, states{"a": "completed", "b": "running", "c": "canceled", "d": "pending"})
		require.Equal(w.t, []workflow.RunID{run}, p.renew(b...).Canceling)
		w.checkInvariants()
		p.complete(b...)
		w.requireTasks(run, states{"b": "completed", "d": "canceled"})
		w.requireRun(run, lifecycle.Canceled)
		require.Empty(w.t, w.snapshot().Timers)
	}},
	{"cancel/reports", "an error, a loss or a release of a canceled run's task cancels it", func(w *world) {
		g, p := w.withPod(Chain(2))
		for _, change := range []func(*persistence.Transition){
			func(t *persistence.Transition) { t.Report, t.Retry = lifecycle.Errored, true },
			func(t *persistence.Transition) { t.Report = lifecycle.Lost },
			func(t *persistence.Transition) { t.Report = lifecycle.Released },
		} {
			run := w.start(g)
			t := completion(p.claimStep("s0"))
			t.Output = nil
			w.cancel(run)
			change(&t)
			p.report(t)
			w.requireTasks(run, states{"s0": "canceled", "s1": "canceled"})
			w.requireRun(run, lifecycle.Canceled)
		}
	}},
	{"cancel/sleeping_and_backoff", "what sleeps or waits to be tried again is canceled, with its timer", func(w *world) {
		nap, single := Nap(time.Hour), Single()
		w.with(nap, single)
		sleeping := w.start(nap)
		p := w.pod()
		p.complete(p.claimStep("before"))
		w.requireTasks(sleeping, states{"nap": "sleeping"})
		waiting := w.start(single)
		p.report(retry(p.claimStep("a"), time.Hour))
		w.cancel(sleeping)
		w.cancel(waiting)
		w.requireTasks(sleeping, states{"nap": "canceled", "after": "canceled"})
		w.requireTasks(waiting, states{"a": "canceled"})
		require.Empty(w.t, w.snapshot().Timers)
	}},
	{"cancel/whatever_the_edges", "a cancel stops tasks whatever their edges", func(w *world) {
		run, p := w.startWithPod(Handled())
		g := p.claimStep("try")
		w.cancel(run)
		p.fail(g)
		w.requireTasks(run, states{"try": "canceled", "report": "canceled"})
		w.requireRun(run, lifecycle.Canceled)
	}},
	{"cancel/unknown", "a run that does not exist cannot be canceled", func(w *world) {
		call(w.store.CancelRun(w.ctx, persistence.Cancel{Run: w.runID(), Tenant: tenantA})).fails(w, persistence.ErrRunNotFound)
	}},
	{"cancel/event", "a cancel leaves an event with who and why", func(w *world) {
		run := w.start(w.with(Single()))
		w.cancel(run)
		list := call(w.store.Events(w.ctx, tenantA, run, nil, 100)).must(w)
		for _, e := range list {
			if e.Kind == lifecycle.EventCancelRequested {
				require.Equal(w.t, "api", e.By)
				require.Equal(w.t, "no longer needed", e.Text)
				return
			}
		}
		require.Fail(w.t, "no event of the cancel")
	}},
}

var graceRules = []rule{
	{"grace/fences", "a task that still runs when the grace is over is canceled and fenced", func(w *world) {
		run, p := w.startWithPod(Chain(2))
		g := p.claimStep("s0")
		w.cancel(run)
		w.advance(cancelGrace)
		fired := w.fire()
		require.Equal(w.t, 1, fired.Count)
		require.Equal(w.t, []workflow.RunID{run}, fired.Wake.Ended)
		w.requireTasks(run, states{"s0": "canceled", "s1": "canceled"})
		s0 := w.tasks(run)["s0"]
		require.Equal(w.t, int32(1), s0.Attempt, "the attempt that was cut off is shown")
		require.Equal(w.t, p.id, s0.Pod)
		require.NotEmpty(w.t, s0.PodName)
		p.renew()
		require.Equal(w.t, lifecycle.Stale, p.send(p.batch(completion(g))).Answers[0].Result)
		require.Len(w.t, p.renew(g).Lost, 1)
		w.requireRun(run, lifecycle.Canceled)
	}},
	{"grace/not_early", "the grace is kept", func(w *world) {
		run, p := w.startWithPod(Single())
		g := p.claimStep("a")
		w.cancel(run)
		w.advance(cancelGrace / 2)
		require.Zero(w.t, w.fire().Count)
		w.requireTasks(run, states{"a": "running"})
		p.renew(g)
		p.complete(g)
		// Nothing was cut: the cancel came too late to change how the run ends.
		w.requireRun(run, lifecycle.Completed)
	}},
	{"grace/not_needed", "a task that ends within the grace leaves no timer", func(w *world) {
		run, p := w.startWithPod(Chain(2))
		g := p.claimStep("s0")
		w.cancel(run)
		require.Len(w.t, w.snapshot().Timers, 1)
		p.complete(g)
		require.Empty(w.t, w.snapshot().Timers)
		w.advance(cancelGrace)
		require.Zero(w.t, w.fire().Count)
		w.requireRun(run, lifecycle.Canceled)
	}},
}

// endRules: what a transaction says of the runs that it ended.
var endRules = []rule{
	{"ends/counted", "a record counts the runs that it ended, by workflow and state", func(w *world) {
		single, chain := Single(), Chain(2)
		w.with(single, chain)
		w.trigger(w.drafts(single, tenantA, 4)...)
		w.trigger(w.drafts(chain, tenantA, 2)...)
		p := w.pod()
		grants := p.claim(6)
		out := p.report(completion(grants[0]), completion(grants[1]), failure(grants[2]), completion(grants[4]), failure(grants[5]))
		require.Equal(w.t, []persistence.Ends{
			{Workflow: chain.Name, State: lifecycle.Failed, Count: 1},
			{Workflow: "single", State: lifecycle.Completed, Count: 2},
			{Workflow: "single", State: lifecycle.Failed, Count: 1},
		}, out.Wake.Ends)
		require.Empty(w.t, p.send(p.batch(completion(grants[0]))).Wake.Ends, "it was counted before")
	}},
	{"ends/alone", "a single completion counts the run that it ends", func(w *world) {
		_, p := w.startWithPod(Diamond())
		for _, step := range []string{"a", "b", "c"} {
			require.Empty(w.t, p.complete(p.claimStep(step)).Wake.Ends)
		}
		require.Equal(w.t, []persistence.Ends{{Workflow: "diamond", State: lifecycle.Completed, Count: 1}}, p.complete(p.claimStep("d")).Wake.Ends)
	}},
	{"ends/canceled", "a cancel counts the run, also one that never began", func(w *world) {
		g := w.with(Single())
		waiting := w.draft(g)
		w.submit(waiting)
		for _, run := range []workflow.RunID{w.start(g), waiting.Run} {
			require.Equal(w.t, []persistence.Ends{{Workflow: "single", State: lifecycle.Canceled, Count: 1}}, w.cancel(run).Wake.Ends)
			require.Empty(w.t, w.cancel(run).Wake.Ends)
		}
	}},
	{"ends/lost", "a takeover counts the runs that fail of it", func(w *world) {
		run := w.start(w.with(Single()))
		var out persistence.Expired
		for range maxLost {
			require.Empty(w.t, out.Wake.Ends)
			w.pod().claimStep("a")
			w.advance(leaseTTL)
			out = w.expire()
		}
		w.requireRun(run, lifecycle.Failed)
		require.Equal(w.t, []persistence.Ends{{Workflow: "single", State: lifecycle.Failed, Count: 1}}, out.Wake.Ends)
	}},
}
