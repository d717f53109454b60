package storetest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var recordRules = []rule{
	{"record/completes_a_run", "completing the last task ends the run, with the output of its output step", func(w *world) {
		run, p := w.startWithPod(Diamond())
		p.complete(p.claimStep("a"))
		p.complete(p.claim(2)...)
		w.requireRun(run, lifecycle.Running)
		require.Equal(w.t, []workflow.RunID{run}, p.complete(p.claimStep("d")).Wake.Ended)
		row := w.run(run)
		require.Equal(w.t, lifecycle.Completed, row.State)
		require.True(w.t, row.HasOutput)
		require.Equal(w.t, `"d"`, string(row.Output))
		require.False(w.t, row.FinishedAt.Before(row.StartedAt))
		require.Empty(w.t, p.claim(10))
	}},
	{"record/events", "every transition leaves one event", func(w *world) {
		run, p := w.startWithPod(Diamond())
		p.finish()
		task := []string{"queued", "started", "completed"}
		require.Equal(w.t, map[string][]string{
			"": {"run_created", "run_started", "run_completed"}, "a": task, "b": task, "c": task, "d": task,
		}, w.events(run))
		list := call(w.store.Events(w.ctx, tenantA, run, nil, 100)).must(w)
		for _, e := range list {
			require.False(w.t, e.At.IsZero())
			if e.Kind == lifecycle.EventStarted {
				require.Equal(w.t, p.id, e.Pod)
				require.Equal(w.t, int32(1), e.Attempt)
			}
			if e.Kind == lifecycle.EventRunCreated {
				require.Equal(w.t, "api", e.By)
			}
		}
	}},
	{"record/fan_in", "a step with several parents becomes ready once, when the last has ended", func(w *world) {
		run, p := w.startWithPod(Fan(5))
		p.complete(p.claimStep("root"))
		leaves := p.claimExactly(10, 5)
		for i, leaf := range leaves {
			require.Empty(w.t, p.claim(10), "after %d leaves", i)
			p.complete(leaf)
		}
		require.Len(w.t, p.claim(10), 1)
		require.Equal(w.t, []string{"queued", "started"}, w.events(run)["join"])
	}},
	{"record/fan_in_across_pods", "parents that end on different pods count one by one", func(w *world) {
		w.start(w.with(Diamond()))
		p, q := w.pod(), w.pod()
		p.complete(p.claimStep("a"))
		b, c := p.claim(1), q.claim(1)
		q.complete(c...)
		require.Empty(w.t, q.claim(1))
		p.complete(b...)
		q.complete(q.claimStep("d"))
	}},
	{"record/fan_in_in_one_batch", "parents that end in one batch count one by one", func(w *world) {
		run, p := w.startWithPod(Fan(8))
		p.complete(p.claimStep("root"))
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 1}}, p.complete(p.claim(10)...).Wake.Ready)
		require.Equal(w.t, []string{"queued"}, w.events(run)["join"])
	}},
	{"record/many_runs", "one batch moves many runs", func(w *world) {
		list := w.drafts(w.with(Diamond()), tenantA, 100)
		for i := range list {
			list[i].Tenant = "tenant-" + string(rune('a'+i%7))
		}
		w.trigger(list...)
		p := w.pod()
		for range 3 {
			p.complete(p.claim(persistence.ClaimMax)...)
			w.checkInvariants()
		}
		for _, d := range list {
			w.requireRun(d.Run, lifecycle.Completed)
		}
	}},
	{"record/output_step", "an output step that is not the last is the run's output", func(w *world) {
		g := w.with(Graph(workflow.Definition{Name: "early", Output: 0, Steps: []workflow.Step{
			{Name: "result"}, {Name: "cleanup", After: plain(0)},
		}}))
		run := w.start(g)
		p := w.pod()
		p.complete(p.claimStep("result"))
		require.Equal(w.t, `"result"`, string(w.run(run).Output))
		w.requireRun(run, lifecycle.Running)
		p.complete(p.claimStep("cleanup"))
		require.Equal(w.t, `"result"`, string(w.run(run).Output))
	}},
	{"record/retry", "an error that may be retried waits for its delay and keeps its progress", func(w *world) {
		run, p := w.startWithPod(Single())
		first := retry(p.claimStep("a"), 10*time.Minute)
		first.Progress = []byte(`50`)
		out := p.report(first)
		require.False(w.t, out.Wake.NextTimer.IsZero())
		require.Empty(w.t, out.Wake.Ready)
		w.requireTasks(run, states{"a": "backoff"})
		row := w.tasks(run)["a"]
		require.Equal(w.t, "a broke", row.Error)
		require.False(w.t, row.WakeAt.IsZero())
		require.Empty(w.t, p.claim(10))
		w.advance(9 * time.Minute)
		require.Zero(w.t, w.fire().Count)
		w.advance(time.Minute)
		fired := w.fire()
		require.Equal(w.t, 1, fired.Count)
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 1}}, fired.Wake.Ready)
		p.renew()
		second := p.claimStep("a")
		require.Equal(w.t, int32(2), second.Attempt)
		require.Zero(w.t, second.Lost)
		require.Equal(w.t, `50`, string(second.LastProgress))
		p.complete(second)
		require.Equal(w.t, []string{"queued", "started", "retrying", "queued", "started", "completed"}, w.events(run)["a"])
		require.Equal(w.t, int32(2), w.tasks(run)["a"].Attempt)
		w.requireRun(run, lifecycle.Completed)
	}},
	{"record/fails", "an error that may not be retried fails the task and the run", func(w *world) {
		run, p := w.startWithPod(Chain(2))
		require.Equal(w.t, []workflow.RunID{run}, p.fail(p.claimStep("s0")).Wake.Ended)
		w.requireTasks(run, states{"s0": "failed", "s1": "canceled"})
		row := w.run(run)
		require.Equal(w.t, lifecycle.Failed, row.State)
		require.Equal(w.t, "s0", row.FailedStep)
		require.Equal(w.t, "s0 broke", row.Error)
		require.Equal(w.t, "test", row.Class)
		require.False(w.t, row.HasOutput)
		require.Equal(w.t, "test", w.tasks(run)["s0"].Class)
	}},
	{"record/timed_out", "a timeout is told from an error", func(w *world) {
		run, p := w.startWithPod(Single())
		late := failure(p.claimStep("a"))
		late.TimedOut = "attempt"
		p.report(late)
		require.Equal(w.t, []string{"queued", "started", "timed_out"}, w.events(run)["a"])
		w.requireRun(run, lifecycle.Failed)
		require.Equal(w.t, "a broke", w.run(run).Error)
	}},
	{"record/retried_timeout", "the event of a retry names the timeout", func(w *world) {
		run, p := w.startWithPod(Single())
		late := retry(p.claimStep("a"), time.Hour)
		late.TimedOut = "heartbeat"
		p.report(late)
		list := call(w.store.Events(w.ctx, tenantA, run, nil, 100)).must(w)
		last := list[len(list)-1]
		require.Equal(w.t, lifecycle.EventRetrying, last.Kind)
		require.Equal(w.t, "heartbeat", last.By)
	}},
	{"record/released", "a task handed back is charged neither an attempt nor a loss", func(w *world) {
		run, p := w.startWithPod(Single())
		g := p.claimStep("a")
		out := p.report(persistence.Transition{Task: g.Task, Epoch: g.Epoch, Report: lifecycle.Released})
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 1}}, out.Wake.Ready)
		again := p.claimStep("a")
		require.Equal(w.t, int32(1), again.Attempt)
		require.Zero(w.t, again.Lost)
		require.Equal(w.t, g.Epoch+2, again.Epoch)
		require.Equal(w.t, []string{"queued", "started", "released", "started"}, w.events(run)["a"])
	}},
	{"record/wake", "a record tells who waits: claimers, the timekeeper, callers", func(w *world) {
		chain, nap, elsewhere := Chain(2), Nap(time.Hour), Elsewhere()
		w.with(chain, nap, elsewhere)
		w.trigger(w.draft(chain), w.draft(nap), w.draft(elsewhere), w.draft(chain))
		p := w.pod()
		out := p.complete(p.claim(10)...)
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 2}, {Queue: "gpu", Count: 1}}, out.Wake.Ready)
		require.WithinDuration(w.t, out.Now.Add(time.Hour), out.Wake.NextTimer, time.Minute)
		require.Empty(w.t, out.Wake.Ended)
		out = p.complete(p.claim(10)...)
		require.Len(w.t, out.Wake.Ended, 2)
	}},
	{"record/text", "error texts are cut, valid UTF-8 and free of NUL", func(w *world) {
		run, p := w.startWithPod(Single())
		broken := failure(p.claimStep("a"))
		broken.Error = "nul \x00 bad \xff long " + strings.Repeat("é", persistence.TextMax)
		p.report(broken)
		for _, text := range []string{w.tasks(run)["a"].Error, w.run(run).Error} {
			require.LessOrEqual(w.t, len(text), persistence.TextMax)
			require.Equal(w.t, lifecycle.CleanText(broken.Error), text)
		}
	}},
	{"record/empty", "an empty record does nothing", func(w *world) {
		p := w.pod()
		out := p.send(p.batch())
		require.Empty(w.t, out.Grants)
		require.False(w.t, out.Now.IsZero())
	}},
	{"record/nil_output", "an output of no bytes is an output", func(w *world) {
		run, p := w.startWithPod(Chain(2))
		silent := completion(p.claimStep("s0"))
		silent.Output = nil
		p.report(silent)
		second := p.claimStep("s1")
		require.Equal(w.t, lifecycle.Completed, second.Parents[0].State)
		require.Empty(w.t, second.Parents[0].Output)
		require.Zero(w.t, second.Parents[0].Size)
		p.complete(second)
		w.requireRun(run, lifecycle.Completed)
	}},
}
