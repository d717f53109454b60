package lifecycle

import (
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// Who ends a task that is not ended by its parents, as events name it.
const (
	byCancel   = "cancel"
	byGrace    = "cancel_grace"
	byFailFast = "fail_fast"
	byElement  = "element_failed"
	byMachine  = "machine"
)

// settle decides what a task becomes whose last parent has ended.
func (d *decider) settle(t *Task, last ending) {
	switch {
	case d.run.Canceling:
		d.cut(t, Event{})
		return
	case d.run.Failing && stopsWith(t.Traits):
		d.stop(t, Canceled, Event{Kind: EventCanceled, By: byFailFast})
		return
	}
	switch DecideVerdict(t.Flags, t.Traits, t.Parents) {
	case VerdictCancel:
		d.stop(t, Canceled, Event{Kind: EventCanceled, By: d.blame(t, last, FlagCancel)})
	case VerdictFail:
		d.fail(t, Event{Kind: EventFailed, Class: "condition", Text: t.Error}, NonRetryable)
	case VerdictSkip:
		d.stop(t, Skipped, Event{Kind: EventSkipped, By: d.blame(t, last, FlagSkip)})
	case VerdictRun:
		d.ready(t)
	}
}

// ready lets a task begin: a function goes into the queue, a sleep sets its
// timer, a wait takes its signal or waits.
func (d *decider) ready(t *Task) {
	switch {
	case t.Flags&FlagKept != 0 && t.Traits&(workflow.TraitSleep|workflow.TraitSleepUntil) != 0:
		d.sleep(t, d.now)
	case t.Traits.Has(workflow.TraitSleep):
		d.sleep(t, d.now.Add(t.Sleep))
	case t.Traits.Has(workflow.TraitSleepUntil):
		if t.WakeAt.IsZero() {
			d.fail(t, Event{Kind: EventFailed, Class: "condition", Text: "sleep until: no instant was given"}, NonRetryable)
			return
		}
		d.sleep(t, t.WakeAt)
	case t.Traits.Has(workflow.TraitWaits) && t.Flags&FlagKept == 0:
		d.await(t)
	default:
		d.enqueue(t, Event{Kind: EventQueued})
	}
}

func (d *decider) sleep(t *Task, until time.Time) {
	until = Instant(until)
	d.move(t, Sleeping, Event{Kind: EventSleeping, WakeAt: until})
	d.setTimer(Timer{Step: t.Step, Kind: SleepTimer, At: until, Epoch: t.Epoch})
}

func (d *decider) enqueue(t *Task, event Event) {
	d.move(t, Queued, event)
	d.place(Enqueue{Step: t.Step, Lane: d.lane, Suspect: t.Flags.Has(FlagSuspect)})
	if t.StartTimeout > 0 && t.Flags&(FlagKept|FlagSpread) == 0 { // what has completed before cannot come too late
		d.setTimer(Timer{Step: t.Step, Kind: QueueTimer, At: d.now.Add(t.StartTimeout), Epoch: t.Epoch})
	}
}

// stop ends a task that did not get to its own end.
func (d *decider) stop(t *Task, state State, event Event) {
	d.run.Slow = true
	d.move(t, state, event)
}

// cut ends a task because the run was asked to stop. The event carries what is
// known of the attempt that this ends, if any.
func (d *decider) cut(t *Task, event Event) {
	d.run.Cut = true
	event.Kind, event.By = EventCanceled, byCancel
	d.stop(t, Canceled, event)
}

// fail ends a task as failed and applies the failure policy of the run.
func (d *decider) fail(t *Task, event Event, reason DeadReason) {
	if !t.IsElement() { // its map fails with it, or not
		d.out.Dead = append(d.out.Dead, Death{t.Step, reason, t.Handled()})
	}
	t.Class, t.Error = event.Class, event.Text
	d.run.Slow = true
	d.move(t, Failed, event)
	if t.Handled() {
		return
	}
	d.run.Unhandled = true
	if d.run.Policy != workflow.FailFast || d.run.Failing || t.Traits.Has(workflow.TraitOnFailure) {
		return
	}
	d.run.Failing = true
	d.sweep(func(t *Task) {
		if stopsWith(t.Traits) {
			d.stop(t, Canceled, Event{Kind: EventCanceled, By: byFailFast})
		}
	})
}

// sweep visits the tasks that wait: queued, sleeping, backoff and waiting.
// Pending ones are reached by the cascade once their parents have ended, which
// keeps a task from ending before its parents.
func (d *decider) sweep(visit func(*Task)) {
	if !d.all() {
		return
	}
	for i := range d.tasks {
		if t := &d.tasks[i]; t.State == Queued || t.State == Sleeping || t.State == Backoff || t.State == Waiting {
			visit(t)
		}
	}
}
