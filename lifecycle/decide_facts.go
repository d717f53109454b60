package lifecycle

import (
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/workflow"
)

// report applies what a pod says about a task.
func (d *decider) report(r TaskReported) Answer {
	t := d.named(r.Step)
	if t == nil {
		return Stale
	}
	if t.State != Running || t.Epoch != r.Epoch || t.Pod != r.Pod {
		if t.Pod == r.Pod && t.Epoch == r.Epoch+1 && follows(r.Kind, t) {
			return AlreadyYours
		}
		return Stale
	}
	if !d.fits(t, r.Activation) {
		return Illegal
	}
	r.Class, r.Error = CleanText(r.Class), CleanText(r.Error)
	switch r.Kind {
	case Succeeded:
		d.succeeded(t, r)
	case Errored:
		d.errored(t, r)
	case Lost:
		d.lost(t, r)
	case Released:
		d.released(t)
	case Yielded:
		return d.yielded(t, r)
	default:
		return Illegal
	}
	return Moved
}

// follows reports whether a recorded report of this kind leaves a task like
// this, so that a repeated one is recognised. A success of which the database
// refused the values was recorded as a failure. No report fences a task.
func follows(kind ReportKind, t *Task) bool {
	if t.Flags.Has(FlagCancel) {
		return false
	}
	failed := t.State == Failed || t.State == Backoff || t.State == Canceled
	switch kind {
	case Succeeded:
		return t.State == Completed || failed && t.Class == ClassBadRow
	case Errored:
		return failed
	case Lost:
		return t.State == Queued || t.State == Failed || t.State == Canceled
	case Released:
		return t.State == Queued || t.State == Canceled
	case Yielded:
		return t.State == Waiting || t.State == Queued && t.Traits.Has(workflow.TraitMachine) && t.Lost == 0 || t.State == Canceled || failed && (t.Class == ClassBadRow || t.Class == ClassTooDeep || t.Class == ClassTooManyOpen)
	}
	return false
}

func (d *decider) succeeded(t *Task, r TaskReported) {
	for _, edge := range r.Edges {
		if slices.ContainsFunc(t.Children, func(c workflow.Child) bool { return c.Step == edge.Child }) {
			d.judge(edge)
		}
	}
	if r.Activation != nil {
		d.out.Activated = true
		d.refused(r.Activation)
	}
	d.move(t, Completed, Event{Kind: EventCompleted})
	d.make(r.Step, r.Make)
}

// judge notes on a child what a condition on its parent said, or the instant
// that its parent gave.
func (d *decider) judge(edge EdgeFlag) {
	child := d.child(edge.Child)
	if child == nil {
		return
	}
	child.Flags |= edge.Flags & (FlagSkip | FlagFail)
	if edge.Flags&FlagFail != 0 {
		child.Error = CleanText(edge.Error)
	}
	if !edge.WakeAt.IsZero() {
		child.WakeAt = Instant(edge.WakeAt)
	}
	m := d.note(child.Step)
	m.changed, m.judged = true, true
	d.run.Slow = true
}

func (d *decider) errored(t *Task, r TaskReported) {
	t.Attempt++
	t.Class, t.Error = r.Class, r.Error
	event := Event{Kind: EventFailed, Attempt: t.Attempt, Class: r.Class, Text: r.Error}
	switch {
	case d.run.Canceling:
		d.cut(t, event)
	case t.stopped():
		event.Kind, event.By = EventCanceled, byMachine
		d.stop(t, Canceled, event)
	case r.Retry && d.stopper(t) == "":
		event.Kind, event.By = EventRetrying, r.TimedOut
		event.Delay, event.WakeAt = r.RetryIn, Instant(d.now.Add(r.RetryIn))
		d.move(t, Backoff, event)
		d.setTimer(Timer{Step: t.Step, Kind: BackoffTimer, At: event.WakeAt, Epoch: t.Epoch})
	case r.TimedOut != "":
		event.Kind, event.By = EventTimedOut, r.TimedOut
		d.fail(t, event, reasonOf(r))
	default:
		d.fail(t, event, reasonOf(r))
	}
}

func (d *decider) lost(t *Task, r TaskReported) {
	t.Lost++
	pill := isPill(t, r)
	t.Flags &^= FlagSuspect
	if isSuspect(t.Lost, r) {
		t.Flags |= FlagSuspect
	}
	switch {
	case d.run.Canceling:
		d.cut(t, Event{Pod: t.Pod})
	case d.stopper(t) != "":
		d.stop(t, Canceled, Event{Kind: EventCanceled, By: d.stopper(t), Pod: t.Pod})
	case pill:
		d.fail(t, Event{
			Kind: EventFailed, Pod: t.Pod, Class: "lost",
			Text: fmt.Sprintf("lost %d times with its pod: taken for a poison pill", t.Lost),
		}, PoisonPill)
	default:
		d.enqueue(t, Event{Kind: EventLost, Pod: t.Pod})
	}
}

func (d *decider) released(t *Task) {
	switch {
	case d.run.Canceling:
		d.cut(t, Event{Pod: t.Pod})
	case d.stopper(t) != "":
		d.stop(t, Canceled, Event{Kind: EventCanceled, By: d.stopper(t), Pod: t.Pod})
	default:
		d.enqueue(t, Event{Kind: EventReleased, Pod: t.Pod})
	}
}

// fire applies a due timer. One of an older epoch has no effect.
func (d *decider) fire(f TimerFired) Answer {
	switch f.Timer {
	case StartTimer:
		return d.start()
	case CancelGraceTimer:
		return d.fence()
	case SleepTimer, BackoffTimer, QueueTimer, DeadlineTimer, StopTimer:
	default:
		return Illegal
	}
	t := d.named(f.Step)
	if t == nil || t.Epoch != f.Epoch {
		return Stale
	}
	switch {
	case f.Timer == SleepTimer && t.State == Sleeping:
		d.move(t, Completed, Event{Kind: EventWoken})
	case f.Timer == BackoffTimer && t.State == Backoff:
		d.enqueue(t, Event{Kind: EventQueued})
	case f.Timer == QueueTimer && t.State == Queued:
		d.overdue(t, f.Parked)
	case f.Timer == DeadlineTimer && t.State == Waiting && t.Traits.Has(workflow.TraitWaits):
		d.late(t)
	case f.Timer == StopTimer && t.State == Running && t.stopped():
		d.fenceStopped(t)
	default:
		return Illegal
	}
	return Moved
}

// overdue ends a task that waited in the queue for too long.
func (d *decider) overdue(t *Task, parked bool) {
	event := Event{
		Kind: EventTimedOut, By: "schedule_to_start", Class: "timed_out",
		Text: fmt.Sprintf("waited in the queue for more than %v", t.StartTimeout),
	}
	reason := TimedOut
	if parked {
		event.Text += ": no living pod registers its step"
		reason = Unregistered
	}
	d.fail(t, event, reason)
}
