package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

var deadlineRules = []rule{
	{"deadline/skips", "a wait that was too long is skipped, and what may go on does", func(w *world) {
		run, p := w.startWithPod(Approval())
		require.False(w.t, w.tasks(run)["remind"].WakeAt.IsZero())
		w.advance(2 * time.Hour)
		require.Equal(w.t, 1, w.fire().Count)
		w.requireTasks(run, states{"remind": "skipped", "note": "queued"})
		require.Equal(w.t, []string{"waiting", "skipped"}, w.events(run)["remind"])
		w.sends(persistence.SignalStored, signalFor(run, "reminded", "late"))
		w.drain(10)
		w.requireTasks(run, states{"remind": "skipped"})
		_ = p
	}},
	{"deadline/fails", "a wait that was too long fails, with a dead letter", func(w *world) {
		run := w.start(w.with(ApprovalStrict()))
		w.advance(2 * time.Hour)
		require.Equal(w.t, 1, w.fire().Count)
		w.requireTasks(run, states{"remind": "failed", "ask": "canceled"})
		row := w.tasks(run)["remind"]
		require.Equal(w.t, lifecycle.ClassWaitTimeout, row.Class)
		require.Equal(w.t, `no signal "reminded" came within 1h0m0s`, row.Error)
		require.Equal(w.t, lifecycle.TimedOut, w.letters()["remind"].Reason)
		w.requireRun(run, lifecycle.Failed)
	}},
	{"deadline/signal_first", "a signal that was sent before the deadline is delivered before it is decided", func(w *world) {
		run := w.start(w.with(ApprovalStrict()))
		w.sends(persistence.SignalStored, signalFor(run, "reminded", "in time"))
		w.advance(2 * time.Hour)
		require.Zero(w.t, w.fire().Count, "the deadline has no effect")
		w.requireTasks(run, states{"remind": "completed"})
		require.Zero(w.t, w.drain(10).Delivered)
		require.Equal(w.t, `"in time"`, string(w.tasks(run)["remind"].Output))
	}},
	{"deadline/signal_last", "one that was sent after it is not", func(w *world) {
		run := w.start(w.with(Approval()))
		w.advance(2 * time.Hour)
		w.sends(persistence.SignalStored, signalFor(run, "reminded", "too late"))
		require.Equal(w.t, 1, w.fire().Count)
		w.requireTasks(run, states{"remind": "skipped"})
		require.Equal(w.t, 1, w.drain(10).Delivered)
	}},
	{"deadline/over", "the deadline of a wait that has its signal is gone", func(w *world) {
		run := w.start(w.with(ApprovalStrict()))
		w.delivers(run, "reminded", "a")
		w.advance(2 * time.Hour)
		require.Zero(w.t, w.fire().Count)
		w.requireTasks(run, states{"remind": "completed"})
	}},
}
