package lifecycle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// A machine is a run with one task of its graph, whose activations handle the entries of the
// inbox of the run: signals, the ends of what it has started, and a request to stop. Entries are
// numbered from 1, in the order in which they came, under the lock of the run. An activation is an
// attempt: it takes the entries that are there, and reports, with Yielded, up to which number it
// has handled them and what it starts and cancels. The machine waits without a slot until another
// entry comes.

// OpenMax bounds what a machine has open: activities, timers and child runs that have not ended.
const OpenMax = 10_000

// stopGrace is how long a task may go on that was asked to stop while it ran, and a run whose
// machine did not end in time after a cancel.
const stopGrace = 30 * time.Second

// Activation is what an activation of a machine has decided.
type Activation struct {
	Taken  int64   // entries up to this number are handled
	Heard  int32   // how many those are that this activation has handled, for its event
	Start  []Task  // to make, as NewDynamic returns them; of timers with WakeAt
	Cancel []int32 // tasks to cancel that the machine has started

	Refused []RefusedSignal // that it left out

	// Deaf says that the machine hears no signals: one that has nothing open stands still for ever.
	Deaf bool
}

// RefusedSignal is a signal that a program cannot read, and why.
type RefusedSignal struct{ Name, Why string }

// SpawnedName returns the name of what a machine has started as the n-th: the id that it has for
// the machine.
func SpawnedName(step string, n int32) string { return step + "#" + strconv.Itoa(int(n)) }

// SpawnedAs returns the step that a name is of, and as the how manieth the machine has started it;
// 0: it is no such name.
func SpawnedAs(name string) (step string, n int32) {
	step, number, found := strings.Cut(name, "#")
	if !found {
		return name, 0
	}
	count, err := strconv.ParseInt(number, 10, 32)
	if err != nil || count < 1 || number[0] == '0' || number[0] == '+' {
		return name, 0
	}
	return step, int32(count)
}

// IsSpawned reports whether a machine has started the task.
func (t *Task) IsSpawned() bool { return t.Dynamic != nil && t.Traits.Has(workflow.TraitSpawned) }

// stopped reports whether the task was asked to stop while it ran.
func (t *Task) stopped() bool { return t.Flags.Has(FlagStop) && t.IsSpawned() }

// hearsCancel reports whether a cancel of the run is an entry for the machine. A second one ends it.
func (t *Task) hearsCancel() bool {
	return t.Sleep > 0 && !t.Flags.Has(FlagStop) && !t.State.Terminal()
}

// cancelRepeat is how long after the first cancel another one is taken for the same, whose answer
// was lost on its way.
const cancelRepeat = 10 * time.Second

// repeatsCancel reports whether a cancel at an instant repeats the one that the machine hears.
func (t *Task) repeatsCancel(now time.Time) bool {
	return t.Sleep > 0 && t.Flags.Has(FlagStop) && !t.State.Terminal() && now.Sub(t.WakeAt) < cancelRepeat
}

// machine returns the task of the machine if the run is one and the task is at hand, or nil.
func (d *decider) machine() *Task {
	if i, ok := d.at(0); ok && d.tasks[i].Traits.Has(workflow.TraitMachine) {
		return &d.tasks[i]
	}
	return nil
}

// fits reports whether a report with an activation may come from a task: from a machine, about
// entries that its inbox has.
func (d *decider) fits(t *Task, a *Activation) bool {
	return a == nil || t.Traits.Has(workflow.TraitMachine) && a.Taken >= 0 && a.Taken <= d.run.Signals
}

// openAfter returns how much the machine has open once what an activation cancels at once has
// ended and what it starts has begun.
func (d *decider) openAfter(machine int32, a *Activation) int64 {
	open := int64(d.run.Remaining) - 1 + int64(len(a.Start))
	for i, step := range a.Cancel {
		if begun := step - d.run.Steps - d.run.Dynamic; begun > 0 { // with this activation
			if int(begun) <= len(a.Start) && !slices.Contains(a.Cancel[:i], step) {
				open--
			}
			continue
		}
		t := d.named(step)
		if t != nil && t.startedBy(machine) && !t.State.Terminal() && t.State != Running && !slices.Contains(a.Cancel[:i], step) {
			open--
		}
	}
	return open
}

// startedBy reports whether a machine has started the task.
func (t *Task) startedBy(machine int32) bool { return t.IsSpawned() && t.Dynamic.Owner == machine }

// activated applies what an activation has decided. The machine waits, unless entries have come
// that it has not handled.
func (d *decider) activated(t *Task, a *Activation) Answer {
	if !t.Traits.Has(workflow.TraitMachine) || a == nil {
		return Illegal
	}
	if d.run.Canceling {
		d.released(t)
		return Moved
	}
	if open := d.openAfter(t.Step, a); open > OpenMax {
		t.Attempt++
		d.fail(t, Event{
			Kind: EventFailed, Attempt: t.Attempt, Class: ClassTooManyOpen,
			Text: fmt.Sprintf("%d activities, timers and child runs would be open: at most %d may be", open, OpenMax),
		}, NonRetryable)
		return Moved
	}
	d.out.Activated = true
	t.Attempt, t.Lost, t.Class, t.Error = 0, 0, "", ""
	t.Flags &^= FlagSuspect
	event := Event{Kind: EventActivated, By: heard(a.Heard), Pod: t.Pod}
	if d.run.Signals > a.Taken {
		d.enqueue(t, event)
	} else {
		d.move(t, Waiting, event)
	}
	d.refused(a)
	machine := t.Step
	d.make(machine, a.Start)
	for _, step := range a.Cancel { // what has just begun, too
		d.cancelSpawned(machine, step, a.Taken)
	}
	if m := d.machine(); a.Deaf && d.run.Remaining == 1 && m.State == Waiting && !m.Flags.Has(FlagStop) {
		m.Attempt++
		d.fail(m, Event{
			Kind: EventFailed, Attempt: m.Attempt, Class: ClassStalled,
			Text: "the machine has nothing open, hears no signals and has not ended",
		}, NonRetryable)
	}
	return Moved
}

// refused writes which signals an activation has left out.
func (d *decider) refused(a *Activation) {
	for _, r := range a.Refused {
		d.noteRun(Event{Kind: EventSignalRefused, By: CleanText(r.Name), Text: CleanText(r.Why)})
	}
}

// heard says how many entries an activation has handled, for its event.
func heard(entries int32) string {
	if entries == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", entries)
}

// wake queues a machine that waits.
func (d *decider) wake(t *Task) {
	if t.State == Waiting {
		d.lane = LaneContinuing
		d.enqueue(t, Event{})
	}
}

// cancelSpawned cancels what a machine has started. What runs is asked to stop: a success counts
// all the same. A timer that has fired and a failure are not heard of, unless the activation has
// handled them; the completion of anything else is, because its effect has happened.
func (d *decider) cancelSpawned(machine, step int32, taken int64) {
	t := d.named(step)
	if t == nil || !t.startedBy(machine) {
		return
	}
	switch {
	case t.State.Terminal():
		if (t.State != Completed || t.Traits.Has(workflow.TraitSleepUntil)) && t.Entry > taken {
			t.Entry = -t.Entry
			d.note(step).changed = true
		}
	case t.State != Running:
		d.stop(t, Canceled, Event{Kind: EventCanceled, By: byMachine})
	case !t.stopped():
		t.Flags |= FlagStop
		d.out.Stops = true
		d.note(step).changed = true
		d.setTimer(Timer{Step: step, Kind: StopTimer, At: d.now.Add(stopGrace), Epoch: t.Epoch})
	}
}

// fenceStopped ends a task that was asked to stop and did not in time: what its pod reports later
// is stale. The attempt that this ends counts as begun.
func (d *decider) fenceStopped(t *Task) {
	t.Attempt++
	t.Flags |= FlagCancel
	d.stop(t, Canceled, Event{Kind: EventCanceled, By: byGrace, Pod: t.Pod, Attempt: t.Attempt})
}

// spawnedEnded gives the end of what a machine has started a number in its inbox, and wakes it. A
// machine does not hear of what it has canceled; the number, negative then, says when the rows are
// no longer needed, and that a run which continues this one does not start it again. What was
// canceled because the machine or its run ended has none. If that was asked to stop while it ran
// and nothing else is open, the machine is activated all the same: that finds out whether it can
// continue.
func (d *decider) spawnedEnded(spawned *Task) {
	owner := d.child(spawned.Dynamic.Owner)
	if owner == nil {
		return
	}
	i, _ := d.at(spawned.Step)
	over := owner.State.Terminal()
	switch {
	case spawned.State == Canceled && (spawned.stopped() && !spawned.Flags.Has(FlagLeft) || !over && !d.run.Canceling):
		d.tasks[i].Entry = -max(d.run.Signals, 1)
		d.marks[i].changed = true
		if !over && spawned.stopped() && d.run.Remaining == 1 {
			d.wake(owner)
		}
		return
	case spawned.State == Canceled, over:
		return
	}
	d.marks[i].changed = true
	d.run.Signals++
	d.tasks[i].Entry = d.run.Signals
	d.wake(owner)
}

// machineEnded cancels what a machine has left open. The run ends when all of it has.
func (d *decider) machineEnded(machine *Task) {
	if d.run.Canceling || !d.all() {
		return
	}
	for i := 0; i < len(d.tasks); i++ {
		if t := &d.tasks[i]; t.IsSpawned() && !t.State.Terminal() {
			if t.State == Running && !t.stopped() {
				t.Flags |= FlagLeft
			}
			d.cancelSpawned(machine.Step, t.Step, 0)
		}
	}
}

// askMachine gives a machine the request to stop as an entry. It may go on for as long as it has
// declared.
func (d *decider) askMachine(t *Task, c CancelRequested) {
	d.noteRun(Event{Kind: EventCancelRequested, By: CleanText(c.By), Text: CleanText(c.Reason)})
	t.Flags |= FlagStop
	d.run.Signals++
	t.Entry, t.WakeAt = d.run.Signals, Instant(d.now)
	d.note(t.Step).changed = true
	d.setTimer(Timer{Step: RunStep, Kind: CancelGraceTimer, At: d.now.Add(t.Sleep)})
	d.wake(t)
}

// cancelLate stops a run whose machine was asked to stop and did not end in time.
func (d *decider) cancelLate() Answer {
	t := d.machine()
	if t == nil || !t.Flags.Has(FlagStop) || t.State.Terminal() {
		return Stale
	}
	d.out.Stops = d.anyRunning()
	d.cancelNow(CancelRequested{
		By: byGrace, Reason: fmt.Sprintf("the machine did not end within %v of the cancel", t.Sleep), Grace: stopGrace,
	})
	return Moved
}
