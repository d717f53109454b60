package lifecycle

import (
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/workflow"
)

// Entry is a signal in the inbox of a run. Entries are numbered from 1, in the order of their
// delivery.
type Entry struct {
	N    int64
	Name string
}

// Taken says that a step has taken an entry: its payload is the output of the step, which has
// completed, or is queued so that a pod completes it.
type Taken struct {
	N    int64
	Step int32
}

// byDeadline is what ends a step whose longest wait is over, as events name it.
const byDeadline = "deadline"

// inbox is what a decision knows of the inbox of a run: the entries that no step has taken.
type inbox struct {
	entries []Entry
	known   bool
}

// arrive delivers a signal. The first step that waits for it takes it.
func (d *decider) arrive(s SignalArrived) Answer {
	if d.run.State.Terminal() {
		return Stale
	}
	taker := int32(-1)
	for _, step := range s.Steps {
		if t := d.named(step); t != nil && t.State == Waiting && t.Traits.Has(workflow.TraitWaits) && taker < 0 {
			taker = step
		}
	}
	if len(d.out.Missing) > 0 {
		return Moved
	}
	d.run.Signals++
	d.noteRun(Event{Kind: EventSignaled, By: s.Name})
	entry := Entry{N: d.run.Signals, Name: s.Name}
	d.out.Arrived = append(d.out.Arrived, entry)
	if m := d.machine(); m != nil {
		d.wake(m)
		return Moved
	}
	if taker < 0 {
		d.inbox.entries = append(d.inbox.entries, entry)
		return Moved
	}
	at, _ := d.at(taker)
	d.take(&d.tasks[at], entry.N)
	return Moved
}

// await lets a step begin that waits for a signal: it takes the first that is there.
func (d *decider) await(t *Task) {
	if !d.inbox.known {
		d.out.MissingInbox = true
		return
	}
	is := func(e Entry) bool { return e.Name == t.Signal }
	if i := slices.IndexFunc(d.inbox.entries, is); i >= 0 {
		n := d.inbox.entries[i].N
		d.inbox.entries = slices.Delete(d.inbox.entries, i, i+1)
		d.take(t, n)
		return
	}
	event := Event{Kind: EventWaiting, By: t.Signal}
	if t.Sleep > 0 {
		event.WakeAt = Instant(d.now.Add(t.Sleep))
	}
	d.move(t, Waiting, event)
	if t.Sleep > 0 {
		d.setTimer(Timer{Step: t.Step, Kind: DeadlineTimer, At: event.WakeAt, Epoch: t.Epoch})
	}
}

// take gives a step the signal that it waits for, and completes it with the payload. Where
// conditions look at that, a pod does, since they are the embedder's code.
func (d *decider) take(t *Task, n int64) {
	d.out.Taken = append(d.out.Taken, Taken{N: n, Step: t.Step})
	if !t.Traits.Has(workflow.TraitJudged) {
		d.move(t, Completed, Event{Kind: EventCompleted})
		return
	}
	t.Flags |= FlagKept
	d.enqueue(t, Event{Kind: EventQueued})
}

// late ends a step whose longest wait for a signal is over.
func (d *decider) late(t *Task) {
	if t.Traits.Has(workflow.TraitSkipsLate) {
		d.stop(t, Skipped, Event{Kind: EventSkipped, By: byDeadline})
		return
	}
	d.fail(t, Event{
		Kind: EventTimedOut, By: byDeadline, Class: ClassWaitTimeout,
		Text: fmt.Sprintf("no signal %q came within %v", t.Signal, t.Sleep),
	}, TimedOut)
}
