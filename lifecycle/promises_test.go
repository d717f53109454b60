package lifecycle

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// check holds the promises that any run keeps between two transactions.
func (w *world) check(d Decision) {
	w.tb.Helper()
	w.checkEnd(d)
	w.checkParentsFirst()
	w.checkFamily(d)
	w.checkHistory()
	w.checkWaits()
	w.checkFastPath()
	w.checkDynamic()
	w.checkInbox()
	w.checkMaps(d)
}

// checkInbox: signals are numbered without a gap, each is in the inbox or was taken by one
// step that waits for its name, steps take the oldest, and no step waits for one that is there
// (I19).
func (w *world) checkInbox() {
	w.tb.Helper()
	if w.isMachine() {
		w.checkMachine()
		return
	}
	require.Equal(w.tb, w.run.Signals, int64(len(w.inbox)+len(w.taken)))
	takers := map[int32]int64{}
	for n, step := range w.taken {
		require.Zero(w.tb, takers[step], "step %d has taken %d and %d", step, takers[step], n)
		takers[step] = n
	}
	for i := range w.tasks {
		t := &w.tasks[i]
		if !t.Traits.Has(workflow.TraitWaits) {
			continue
		}
		began := t.State == Queued || t.State == Running || t.State == Backoff || t.State == Completed
		require.False(w.tb, began && takers[t.Step] == 0, "step %d is %v without a signal", t.Step, t.State)
		for _, e := range w.inbox {
			require.False(w.tb, t.State == Waiting && e.Name == t.Signal, "step %d waits for entry %d, which is there", t.Step, e.N)
			if n := takers[t.Step]; n > 0 && e.Name == t.Signal {
				require.Less(w.tb, n, e.N, "an older entry is left")
			}
		}
	}
}

// checkFamily: a child run begins exactly when its step begins to wait, and at most once; a step
// gets its output exactly when it continues with it; and it is asked to stop, or does not begin,
// exactly when its step is canceled while it waits, unless it is abandoned (I20).
func (w *world) checkFamily(d Decision) {
	w.tb.Helper()
	var begun, given, stopped []int32
	states := map[int32]State{} // in the middle of the decision
	for _, e := range d.Events {
		t := w.task(e.Step)
		if t == nil || !t.Traits.Has(workflow.TraitChild) || e.Kind.Next() == 0 {
			continue
		}
		before, known := states[e.Step]
		if !known {
			before = max(w.folded[e.Step], Pending)
		}
		next := e.Kind.Next()
		states[e.Step] = next
		switch {
		case next == Waiting:
			begun = append(begun, e.Step)
			w.begun[e.Step]++
		case before == Waiting && (next == Completed || next == Queued):
			given = append(given, e.Step)
			w.given[e.Step]++
		case before == Waiting && next == Canceled && !t.Traits.Has(workflow.TraitAbandons):
			if at := slices.Index(begun, e.Step); at >= 0 {
				begun = slices.Delete(begun, at, at+1)
				w.begun[e.Step]--
			} else {
				stopped = append(stopped, e.Step)
			}
		}
	}
	require.ElementsMatch(w.tb, begun, d.Begun, "steps whose child runs begin")
	require.ElementsMatch(w.tb, given, d.Given, "steps that get the output of their child runs")
	require.ElementsMatch(w.tb, stopped, d.Stopped, "steps whose child runs are asked to stop")
	for i := range w.tasks {
		w.checkChild(&w.tasks[i])
	}
}

// checkChild: a step waits for the one child run that has begun with its report, and continues with
// its output.
func (w *world) checkChild(t *Task) {
	w.tb.Helper()
	begun, given := w.begun[t.Step], w.given[t.Step]
	switch {
	case !t.Traits.Has(workflow.TraitChild):
		return
	case begun > 1, given > begun, begun > 0 && w.run.Depth >= DepthMax:
		w.tb.Fatalf("step %d began %d child runs and got %d outputs, at depth %d", t.Step, begun, given, w.run.Depth)
	case t.State == Waiting && (begun != 1 || given != 0), t.State == Completed && given != 1,
		t.Flags.Has(FlagKept) != (given == 1 && t.Traits.Has(workflow.TraitJudged)):
		w.tb.Fatalf("step %d: %+v after %d child runs and %d outputs", t.Step, t, begun, given)
	}
}

// checkDynamic: dynamic tasks are numbered behind the failure handler without a gap, an
// owner before what it made, and no other task has an owner.
func (w *world) checkDynamic() {
	w.tb.Helper()
	next := w.run.Steps + 1
	for i := range w.tasks {
		t := &w.tasks[i]
		require.Equal(w.tb, t.Step > w.run.Steps, t.Dynamic != nil, "step %d", t.Step)
		if t.Dynamic == nil {
			continue
		}
		require.Equal(w.tb, next, t.Step)
		next++
		require.Less(w.tb, t.Dynamic.Owner, t.Step)
		require.NotNil(w.tb, w.task(t.Dynamic.Owner))
	}
	require.Equal(w.tb, w.run.Steps+w.run.Dynamic, next-1)
	if w.run.Dynamic > 0 && !w.run.Slow {
		w.tb.Fatalf("a run with dynamic tasks is not slow: %+v", w.run)
	}
}

// checkEnd: a run has ended exactly when all of its tasks have, and what is
// left to do is counted right (I6).
func (w *world) checkEnd(d Decision) {
	w.tb.Helper()
	open, sinks := 0, int32(0)
	for i := range w.tasks {
		if !w.tasks[i].State.Terminal() {
			open++
			if len(w.tasks[i].Children) == 0 {
				sinks++
			}
		}
	}
	require.Equal(w.tb, open == 0, w.run.State.Terminal(), "run %v with %d open tasks", w.run.State, open)
	require.Equal(w.tb, sinks, w.run.Remaining, "what remains is the number of open tasks without children")
	require.Equal(w.tb, w.run.Remaining == 0, w.run.State.Terminal())
	if d.Ended {
		require.True(w.tb, w.run.State.Terminal())
	}
	if w.run.State.Terminal() {
		require.Empty(w.tb, w.timers, "a run that ended waits for nothing")
	}
}

// checkParentsFirst: no task begins or ends before its parents have ended
// (I5), but for the pending tasks of a run that never began.
func (w *world) checkParentsFirst() {
	w.tb.Helper()
	if w.isMachine() {
		return
	}
	for i, step := range w.plan.steps {
		t := w.tasks[i]
		open := int32(0)
		for _, e := range step.edges {
			if !w.tasks[e.parent].State.Terminal() {
				open++
			}
		}
		if w.run.State == Canceled && t.Epoch == 1 && t.Pending > 0 {
			continue
		}
		require.Equal(w.tb, open, t.Pending, "step %d counts its open parents", i)
		if open > 0 {
			require.Equal(w.tb, Pending, t.State, "step %d has open parents", i)
		} else if w.run.State != Pending {
			require.NotEqual(w.tb, Pending, t.State, "step %d has no open parents", i)
		}
	}
}

// checkHistory: the events of every task and of the run are gapless, each is a
// legal transition, and together they give the state (I10).
func (w *world) checkHistory() {
	w.tb.Helper()
	for _, e := range w.events[w.checked:] {
		w.counts[e.Step]++
		if w.isMachine() && e.Step == 0 && e.N > w.counts[0] { // the wake and the claim before it have none
			w.skipped(e)
		}
		require.Equal(w.tb, w.counts[e.Step], e.N, "events of step %d are gapless", e.Step)
		next := e.Kind.Next()
		if next == 0 {
			continue
		}
		if from, ok := w.folded[e.Step]; ok || e.Step != RunStep {
			check := CheckTask
			if e.Step == RunStep {
				check = CheckRun
			}
			require.NoError(w.tb, check(max(from, Pending), next))
		}
		w.folded[e.Step] = next
	}
	w.checked = len(w.events)
	require.Equal(w.tb, w.run.State, w.folded[RunStep])
	require.Equal(w.tb, w.run.Events, w.counts[RunStep])
	for i := range w.tasks {
		step := w.tasks[i].Step
		if w.isMachine() && step == 0 && w.activating() {
			continue
		}
		if w.tasks[i].State != max(w.folded[step], Pending) || w.tasks[i].Epoch != w.counts[step] {
			w.tb.Fatalf("step %d: %+v after %d events that lead to %v", step, w.tasks[i], w.counts[step], w.folded[step])
		}
	}
}

// checkWaits: whatever waits is woken by exactly one thing, and nothing else
// is kept for later.
func (w *world) checkWaits() {
	w.tb.Helper()
	for i := range w.tasks {
		t, step := &w.tasks[i], w.tasks[i].Step
		_, placed := w.queue[step]
		sleep, sleeping := w.timers[timerKey{step, SleepTimer}]
		backoff, retrying := w.timers[timerKey{step, BackoffTimer}]
		wait, limited := w.timers[timerKey{step, QueueTimer}]
		stop, stops := w.timers[timerKey{step, StopTimer}]
		late, bounded := w.timers[timerKey{step, DeadlineTimer}]
		queued := t.State == Queued
		switch {
		case queued && !placed:
			w.tb.Fatalf("step %d is queued and has no place", i)
		case sleeping != (t.State == Sleeping) || sleeping && sleep.Epoch != t.Epoch:
			w.tb.Fatalf("step %d is %v with timer %+v", i, t.State, sleep)
		case retrying != (t.State == Backoff) || retrying && backoff.Epoch != t.Epoch:
			w.tb.Fatalf("step %d is %v with timer %+v", i, t.State, backoff)
		case queued && limited != (t.StartTimeout > 0 && !t.Flags.Has(FlagSpread)) || queued && limited && wait.Epoch != t.Epoch:
			w.tb.Fatalf("step %d is %v with timer %+v", i, t.State, wait)
		case bounded != (t.State == Waiting && t.Sleep > 0 && t.Traits.Has(workflow.TraitWaits)) || bounded && late.Epoch != t.Epoch:
			w.tb.Fatalf("step %d is %v with timer %+v", i, t.State, late)
		case stops != (t.State == Running && t.stopped()) || stops && stop.Epoch != t.Epoch:
			w.tb.Fatalf("step %d is %v with timer %+v", i, t.State, stop)
		case t.State.Terminal() && limited:
			w.tb.Fatalf("step %d has ended with timer %+v", i, wait)
		}
	}
	if w.run.Canceling && len(w.in(Running)) > 0 {
		require.Contains(w.tb, w.timers, timerKey{RunStep, CancelGraceTimer})
	}
}

// checkFastPath: storage may record the success of a task in a run that is not
// slow without a decision, so nothing may be there that only decisions know.
func (w *world) checkFastPath() {
	w.tb.Helper()
	if w.run.Slow {
		return
	}
	if w.run.Canceling || w.run.Failing || w.run.Unhandled || w.run.Cut || w.run.HandlerMade {
		w.tb.Fatalf("a run that is not slow: %+v", w.run)
	}
	for i := range w.tasks {
		switch t := &w.tasks[i]; {
		case t.State == Failed, t.State == Skipped, t.State == Canceled, t.State == Sleeping, t.State == Waiting,
			t.Flags&^(FlagLive|FlagSuspect) != 0, t.StartTimeout > 0, !t.WakeAt.IsZero() && w.run.State != Pending:
			w.tb.Fatalf("a run that is not slow has task %+v", t)
		}
	}
}
