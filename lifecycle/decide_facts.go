package lifecycle

import (
	"fmt"
)

// start lets the tasks without parents begin.
func (d *decider) start() Answer {
	switch {
	case d.run.State == Running || d.run.State == Completed:
		return AlreadyYours
	case d.run.State != Pending:
		return Stale
	}
	if !d.all() {
		return Moved
	}
	d.moveRun(Running, Event{Kind: EventRunStarted})
	for i := range d.tasks {
		if t := &d.tasks[i]; t.State == Pending && t.Parents == 0 {
			d.settle(t, LaneNew, RunStep)
		}
	}
	return Moved
}

// report applies what a pod says about a task.
func (d *decider) report(r TaskReported) Answer {
	t := d.task(r.Step)
	if t == nil {
		return Stale
	}
	if t.State != Running || t.Epoch != r.Epoch || t.Pod != r.Pod {
		if t.Pod == r.Pod && t.Epoch == r.Epoch+1 && follows(r.Kind, t.State) {
			return AlreadyYours
		}
		return Stale
	}
	switch r.Kind {
	case Succeeded:
		return d.succeeded(t, r)
	case Errored:
		d.errored(t, r)
	case Lost:
		d.lost(t, r)
	case Released:
		d.released(t, r)
	default:
		return Illegal
	}
	return Moved
}

// follows reports whether a recorded report of this kind leaves a task in
// state, so that a repeated one is recognised.
func follows(kind ReportKind, state State) bool {
	switch kind {
	case Succeeded:
		return state == Completed
	case Errored:
		return state == Failed || state == Backoff || state == Canceled
	case Lost, Released:
		return state == Queued || state == Failed || state == Canceled
	}
	return false
}

func (d *decider) succeeded(t *Task, r TaskReported) Answer {
	for _, edge := range r.Edges {
		child := d.task(edge.Child)
		if child == nil {
			continue
		}
		child.Flags |= edge.Flags
		if edge.Flags&FlagFail != 0 {
			child.Error = edge.Error
		}
		if !edge.WakeAt.IsZero() {
			child.WakeAt = edge.WakeAt
		}
		d.changed[child.Step] = true
		d.run.Slow = true
	}
	d.move(t, Completed, Event{Kind: EventCompleted})
	return Moved
}

// stopping reports whether a task that ends badly is not to be tried again,
// and why.
func (d *decider) stopping(t *Task) bool {
	return d.run.Canceling || d.run.Failing && d.stoppable(t)
}

func (d *decider) errored(t *Task, r TaskReported) {
	t.Attempt++
	t.Class, t.Error = r.Class, r.Error
	switch {
	case d.run.Canceling:
		d.cut(t, "cancel")
	case r.Retry && !d.stopping(t):
		wake := d.now.Add(r.RetryIn)
		d.move(t, Backoff, Event{
			Kind: EventRetrying, Attempt: t.Attempt, Delay: r.RetryIn, WakeAt: wake, Class: r.Class, Text: r.Error,
		})
		d.out.Timers = append(d.out.Timers, Timer{Step: t.Step, Kind: BackoffTimer, At: wake, Epoch: t.Epoch})
	case r.TimedOut != "":
		d.fail(t, Event{Kind: EventTimedOut, Attempt: t.Attempt, By: r.TimedOut, Class: r.Class, Text: r.Error})
	default:
		d.fail(t, Event{Kind: EventFailed, Attempt: t.Attempt, Class: r.Class, Text: r.Error})
	}
}

func (d *decider) lost(t *Task, r TaskReported) {
	pod := t.Pod
	t.Lost++
	switch {
	case d.run.Canceling:
		t.Pod = 0
		d.cut(t, "cancel")
	case d.stopping(t):
		t.Pod = 0
		d.stop(t, Canceled, Event{Kind: EventCanceled, By: "fail_fast", Pod: pod})
	case t.Lost >= r.MaxLost:
		t.Pod = 0
		d.fail(t, Event{
			Kind: EventFailed, Pod: pod, Class: "lost",
			Text: fmt.Sprintf("lost %d times with its pod: taken for a poison pill", t.Lost),
		})
	default:
		d.enqueue(t, LaneContinuing, Event{Kind: EventLost, Pod: pod})
	}
}

func (d *decider) released(t *Task, _ TaskReported) {
	switch {
	case d.run.Canceling:
		d.cut(t, "cancel")
	case d.stopping(t):
		d.stop(t, Canceled, Event{Kind: EventCanceled, By: "fail_fast"})
	default:
		d.enqueue(t, LaneContinuing, Event{Kind: EventReleased, Pod: t.Pod})
	}
}

// fire applies a due timer. One of an older epoch has no effect.
func (d *decider) fire(f TimerFired) Answer {
	switch f.Timer {
	case StartTimer:
		return d.start()
	case CancelGraceTimer:
		return d.fence()
	case SleepTimer, BackoffTimer, QueueTimer:
	default:
		return Illegal
	}
	t := d.task(f.Step)
	if t == nil || t.Epoch != f.Epoch {
		return Stale
	}
	switch {
	case f.Timer == SleepTimer && t.State == Sleeping:
		d.move(t, Completed, Event{Kind: EventWoken})
	case f.Timer == BackoffTimer && t.State == Backoff:
		d.enqueue(t, LaneContinuing, Event{Kind: EventQueued})
	case f.Timer == QueueTimer && t.State == Queued:
		d.fail(t, Event{
			Kind: EventTimedOut, By: "schedule_to_start", Class: "timed_out",
			Text: fmt.Sprintf("waited in the queue for more than %v", t.StartTimeout),
		})
	default:
		return Illegal
	}
	return Moved
}

// cancel asks the run to stop.
func (d *decider) cancel(c CancelRequested) Answer {
	switch {
	case d.run.State.Terminal():
		return Stale
	case d.run.Canceling:
		return AlreadyYours
	}
	if !d.all() {
		return Moved
	}
	d.run.Canceling, d.run.Slow = true, true
	d.noteRun(Event{Kind: EventCancelRequested, By: c.By, Text: c.Reason})
	if d.run.State == Pending {
		d.cancelUnstarted()
		return Moved
	}
	d.sweep(func(t *Task) { d.cut(t, "cancel") })
	d.drain()
	if d.anyRunning() {
		d.out.Timers = append(d.out.Timers, Timer{Step: RunStep, Kind: CancelGraceTimer, At: d.now.Add(c.Grace)})
	}
	return Moved
}

// cancelUnstarted ends a run that has not begun: none of its tasks has either.
func (d *decider) cancelUnstarted() {
	for i := range d.tasks {
		if t := &d.tasks[i]; t.State == Pending {
			d.cut(t, "cancel")
		}
	}
	d.ended = nil // every task was canceled here; nobody is left to be told
	d.run.Remaining = 0
	d.moveRun(Canceled, Event{Kind: EventRunCanceled})
}

// fence ends the running tasks of a canceled run whose grace is over: what
// their pods report later is stale.
func (d *decider) fence() Answer {
	if !d.run.Canceling || d.run.State != Running {
		return Stale
	}
	if !d.all() {
		return Moved
	}
	for i := range d.tasks {
		if t := &d.tasks[i]; t.State == Running {
			pod := t.Pod
			t.Pod = 0
			d.run.Cut = true
			d.stop(t, Canceled, Event{Kind: EventCanceled, By: "cancel_grace", Pod: pod})
		}
	}
	return Moved
}

func (d *decider) anyRunning() bool {
	for i := range d.tasks {
		if d.tasks[i].State == Running {
			return true
		}
	}
	return false
}
