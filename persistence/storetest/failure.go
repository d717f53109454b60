package storetest

import (
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

func itoa(n int) string { return strconv.Itoa(n) }

var failureRules = []rule{
	{"failure/fail_fast", "the first unhandled failure cancels what has not started, but not what watches", func(w *world) {
		run, p := w.startWithPod(Mixed(workflow.FailFast))
		grants := p.claimAll()
		p.complete(grants["start"]) // nap sleeps
		p.report(persistence.Transition{Task: grants["side"].Task, Epoch: grants["side"].Epoch, Report: lifecycle.Released})
		p.fail(grants["bad"])
		w.requireTasks(run, states{
			"bad": "failed", "child": "canceled", "watch": "queued", "side": "canceled", "tail": "canceled",
			"start": "completed", "nap": "canceled",
		})
		require.Empty(w.t, w.snapshot().Timers)
		w.requireRun(run, lifecycle.Running)
		require.Equal(w.t, []persistence.Outcome{
			{Step: "bad", State: lifecycle.Failed, Class: "test", Error: "bad broke"},
		}, p.claimAll()["watch"].Parents)
	}},
	{"failure/fail_fast_running", "tasks that run when another fails finish, and are not tried again", func(w *world) {
		run, p := w.startWithPod(Mixed(workflow.FailFast))
		grants := p.claimAll()
		p.fail(grants["bad"])
		w.requireTasks(run, states{"side": "running", "start": "running", "tail": "pending"})
		p.complete(grants["side"])
		w.requireTasks(run, states{"side": "completed", "tail": "canceled"})
		p.report(retry(grants["start"], time.Second))
		w.requireTasks(run, states{"start": "failed", "nap": "canceled"})
	}},
	{"failure/fail_fast_backoff", "a task that waits for its next attempt is canceled", func(w *world) {
		run, p := w.startWithPod(Mixed(workflow.FailFast))
		grants := p.claimAll()
		p.report(retry(grants["side"], time.Hour))
		p.fail(grants["bad"])
		w.requireTasks(run, states{"side": "canceled", "tail": "canceled"})
		w.advance(2 * time.Hour)
		require.Zero(w.t, w.fire().Count)
	}},
	{"failure/finish_siblings", "with FinishSiblings only the descendants of the failed task are affected", func(w *world) {
		run, p := w.startWithPod(Mixed(workflow.FinishSiblings))
		grants := p.claimAll()
		p.fail(grants["bad"])
		w.requireTasks(run, states{"bad": "failed", "child": "canceled", "watch": "queued", "side": "running", "tail": "pending"})
		p.report(retry(grants["side"], time.Minute))
		w.requireTasks(run, states{"side": "backoff"})
		p.complete(grants["start"])
		w.advance(time.Hour)
		w.fire()
		p.renew()
		p.finish()
		w.requireTasks(run, states{"side": "completed", "tail": "completed", "watch": "completed", "nap": "completed", "rescue": "completed"})
		w.requireRun(run, lifecycle.Failed)
	}},
	{"failure/handled", "a failure that every child holds by Settled neither stops nor fails the run", func(w *world) {
		run, p := w.startWithPod(Handled())
		p.fail(p.claimStep("try"))
		report := p.claimStep("report")
		require.Equal(w.t, "try broke", report.Parents[0].Error)
		p.complete(report)
		row := w.run(run)
		require.Equal(w.t, lifecycle.Completed, row.State)
		require.Empty(w.t, row.FailedStep)
	}},
}

var handlerRules = []rule{
	{"on_failure/runs", "the failure handler runs once everything else has ended, with the failed steps", func(w *world) {
		run, p := w.rescue()
		g := p.claimStep("rescue")
		require.Equal(w.t, int32(7), g.Task.Step)
		require.Equal(w.t, []persistence.Outcome{
			{Step: "bad", State: lifecycle.Failed, Class: "test", Error: "bad broke"},
		}, g.Failed)
		require.Equal(w.t, `"input"`, string(g.Input))
		require.Equal(w.t, []workflow.RunID{run}, p.complete(g).Wake.Ended)
		w.requireRun(run, lifecycle.Failed)
		require.Equal(w.t, "bad", w.run(run).FailedStep)
		require.Equal(w.t, []string{"queued", "started", "completed"}, w.events(run)["rescue"])
	}},
	{"on_failure/retried", "the failure handler can be tried again", func(w *world) {
		run, p := w.rescue()
		p.report(retry(p.claimStep("rescue"), 0))
		require.Equal(w.t, 1, w.fire().Count)
		p.complete(p.claimStep("rescue"))
		w.requireRun(run, lifecycle.Failed)
	}},
	{"on_failure/lost", "the failure handler survives a crash of its pod", func(w *world) {
		run, p := w.rescue()
		p.claimStep("rescue")
		w.advance(leaseTTL)
		require.Equal(w.t, 1, w.expire().Tasks)
		q := w.pod()
		q.complete(q.claimStep("rescue"))
		w.requireRun(run, lifecycle.Failed)
	}},
	{"on_failure/fails", "a failure handler that fails leaves the first failure as the run's", func(w *world) {
		run, p := w.rescue()
		p.fail(p.claimStep("rescue"))
		w.requireRun(run, lifecycle.Failed)
		require.Equal(w.t, "bad", w.run(run).FailedStep)
		w.requireTasks(run, states{"rescue": "failed"})
	}},
	{"on_failure/not_without_failure", "the failure handler of a completed run does not exist", func(w *world) {
		run, p := w.startWithPod(Mixed(workflow.FailFast))
		p.finish()
		w.advance(time.Hour)
		w.fire()
		w.requireRun(run, lifecycle.Completed)
		require.NotContains(w.t, w.tasks(run), "rescue")
	}},
	{"on_failure/not_when_canceled", "the failure handler of a canceled run does not run", func(w *world) {
		run, p := w.startWithPod(Mixed(workflow.FailFast))
		grants := p.claimAll()
		p.fail(grants["bad"])
		w.cancel(run)
		p.complete(grants["side"])
		p.complete(grants["start"])
		require.NotContains(w.t, w.tasks(run), "rescue")
		w.requireRun(run, lifecycle.Failed)
	}},
}

// rescue fails a run of Mixed and ends everything but its failure handler.
func (w *world) rescue() (workflow.RunID, *worker) {
	w.t.Helper()
	run, p := w.startWithPod(Mixed(workflow.FailFast))
	grants := p.claimAll()
	p.fail(grants["bad"])
	p.complete(grants["side"])
	p.complete(grants["start"])
	require.NotContains(w.t, w.tasks(run), "rescue")
	p.complete(p.claimStep("watch"))
	w.requireTasks(run, states{"rescue": "queued"})
	w.requireRun(run, lifecycle.Running)
	return run, p
}
