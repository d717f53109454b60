package lifecycle

import (
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/workflow"
)

// DepthMax is how many runs there may be above a run, each a child of the next.
const DepthMax = 32

// yielded lets the child run of a step, or the elements of a map, begin, unless the run stops.
func (d *decider) yielded(t *Task, r TaskReported) Answer {
	if t.Traits.Has(workflow.TraitMachine) || r.Activation != nil {
		return d.activated(t, r.Activation)
	}
	spreads := t.Traits.Has(workflow.TraitMap) && !t.IsElement() && !t.Flags.Has(FlagSpread) && r.Map != nil
	switch {
	case !t.Traits.Has(workflow.TraitChild) && !spreads, t.Flags.Has(FlagKept): // what has completed before begins no other
		return Illegal
	case d.run.Canceling, d.stopper(t) != "":
		d.released(t)
	case spreads:
		d.spread(t, *r.Map)
	case d.run.Depth >= DepthMax:
		t.Attempt++
		d.fail(t, Event{
			Kind: EventFailed, Attempt: t.Attempt, Class: ClassTooDeep,
			Text: fmt.Sprintf("%d runs are above this one, each a child of the next: at most %d may be", d.run.Depth, DepthMax),
		}, NonRetryable)
	default:
		d.move(t, Waiting, Event{Kind: EventWaiting, By: r.Child})
		d.out.Begun = append(d.out.Begun, t.Step)
	}
	return Moved
}

// stopChild asks the child run of a step to stop, or takes it back if it would begin with the same
// decision.
func (d *decider) stopChild(step int32) {
	if at := slices.Index(d.out.Begun, step); at >= 0 {
		d.out.Begun = slices.Delete(d.out.Begun, at, at+1)
		return
	}
	d.out.Stopped = append(d.out.Stopped, step)
}

// childEnded ends the step that waits for a child run as that has ended. Where conditions look at
// the output, a pod completes it.
func (d *decider) childEnded(f ChildEnded) Answer {
	t := d.named(f.Step)
	if t == nil || t.State != Waiting || !t.Traits.Has(workflow.TraitChild) {
		return Stale
	}
	switch f.State { //nolint:exhaustive // others are no endings
	case Completed:
		d.out.Given = append(d.out.Given, t.Step)
		if !t.Traits.Has(workflow.TraitJudged) {
			d.move(t, Completed, Event{Kind: EventCompleted})
			break
		}
		t.Flags |= FlagKept
		d.enqueue(t, Event{Kind: EventQueued})
	case Skipped:
		d.stop(t, Skipped, Event{Kind: EventSkipped, By: "child"})
	default:
		t.Attempt++
		event := Event{Kind: EventFailed, Attempt: t.Attempt}
		event.Class, event.Text = f.why()
		d.fail(t, event, NonRetryable)
	}
	return Moved
}

// why returns the error of a step whose child run did not complete.
func (f *ChildEnded) why() (class, text string) {
	switch f.State { //nolint:exhaustive // those that did complete have no error
	case Failed:
		text := fmt.Sprintf("child run %s failed", f.Run)
		if f.Failed != "" {
			text += fmt.Sprintf(": step %q: %s", f.Failed, f.Error)
		}
		return ClassChildFailed, CleanText(text)
	case Canceled:
		text := fmt.Sprintf("child run %s was canceled", f.Run)
		if f.Error != "" {
			text += ": " + f.Error
		}
		return ClassChildCanceled, CleanText(text)
	}
	return ClassChildGone, "the rows of the child run are gone"
}
