package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// Rows are the tasks of a run that the caller has loaded.
type Rows struct {
	Tasks    []Task
	Complete bool // every task of the run that is not terminal is among them
}

// Decide applies facts to a run, in order, and returns all that changes, to
// any depth. rows hold at least the tasks that the facts name and their
// children. now is the database's time.
//
// Decide does not touch its arguments. Facts that are stale or were recorded
// before change nothing and are answered as such.
func Decide(run Run, rows Rows, facts []Fact, now time.Time) Decision {
	d := newDecider(run, rows, now)
	for _, fact := range facts {
		answer := d.apply(fact)
		d.drain()
		d.endRun()
		d.out.Answers = append(d.out.Answers, answer)
		if d.out.MissingAll {
			return d.out
		}
	}
	return d.decision()
}

// decider is one decision in the making. It is used once.
type decider struct {
	now      time.Time
	before   Run
	run      Run
	complete bool
	tasks    []Task
	index    map[int32]int
	changed  map[int32]bool
	ended    []int32 // tasks whose children have not been told yet
	out      Decision
}

func newDecider(run Run, rows Rows, now time.Time) *decider {
	d := &decider{
		now: now, before: run, run: run, complete: rows.Complete,
		tasks:   slices.Clone(rows.Tasks),
		index:   make(map[int32]int, len(rows.Tasks)),
		changed: make(map[int32]bool, len(rows.Tasks)),
	}
	for i := range d.tasks {
		d.index[d.tasks[i].Step] = i
	}
	return d
}

// all reports whether every task that is not terminal is at hand, and asks for
// them otherwise.
func (d *decider) all() bool {
	d.out.MissingAll = d.out.MissingAll || !d.complete
	return d.complete
}

func (d *decider) decision() Decision {
	for i := range d.tasks {
		if d.changed[d.tasks[i].Step] {
			d.out.Tasks = append(d.out.Tasks, d.tasks[i])
		}
	}
	slices.SortFunc(d.out.Tasks, func(a, b Task) int { return int(a.Step) - int(b.Step) })
	slices.Sort(d.out.Missing)
	d.out.Missing = slices.Compact(d.out.Missing)
	d.out.Run, d.out.RunChanged = d.run, d.run != d.before
	return d.out
}

// task returns the row of a step for reading and changing, or nil and notes
// that it is missing.
func (d *decider) task(step int32) *Task {
	i, ok := d.index[step]
	if !ok {
		d.out.Missing = append(d.out.Missing, step)
		return nil
	}
	return &d.tasks[i]
}

func (d *decider) apply(fact Fact) Answer {
	switch f := fact.(type) {
	case RunStarted:
		return d.start()
	case TaskReported:
		return d.report(f)
	case TimerFired:
		return d.fire(f)
	case CancelRequested:
		return d.cancel(f)
	}
	panic(fmt.Sprintf("lifecycle: unknown fact %T", fact))
}

// move is the only place where a task changes its state: it checks the table,
// raises the epoch and writes the event.
func (d *decider) move(t *Task, next State, event Event) {
	if err := CheckTask(t.State, next); err != nil {
		panic(err)
	}
	if t.State == Sleeping || t.State == Backoff || (t.State == Queued && t.StartTimeout > 0 && next != Running) {
		d.out.DropTimers = append(d.out.DropTimers, t.Step)
	}
	d.dropQueued(t.Step)
	t.State = next
	t.Epoch++
	event.Step, event.N, event.At = t.Step, t.Epoch, d.now
	d.out.Events = append(d.out.Events, event)
	d.changed[t.Step] = true
	if next.Terminal() {
		d.ended = append(d.ended, t.Step)
		if len(t.Children) == 0 {
			d.run.Remaining--
		}
	}
}

// dropQueued forgets effects that this same decision had on a task which it
// now moves on.
func (d *decider) dropQueued(step int32) {
	d.out.Enqueued = slices.DeleteFunc(d.out.Enqueued, func(e Enqueue) bool { return e.Step == step })
	d.out.Timers = slices.DeleteFunc(d.out.Timers, func(t Timer) bool { return t.Step == step })
}

// drain tells the children of ended tasks, breadth-first and without
// recursion, so that a chain of any length is fine.
func (d *decider) drain() {
	for len(d.ended) > 0 {
		parent := d.tasks[d.index[d.ended[0]]]
		d.ended = d.ended[1:]
		for _, edge := range parent.Children {
			child := d.task(edge.Step)
			if child == nil {
				continue
			}
			child.Pending--
			child.Flags |= EdgeFlags(edge, parent.State)
			d.changed[child.Step] = true
			if child.Pending == 0 && child.State == Pending {
				d.settle(child, LaneContinuing, parent.Step)
			}
		}
	}
}

// settle decides what a task becomes whose last parent has ended.
func (d *decider) settle(t *Task, lane Lane, parent int32) {
	by := fmt.Sprintf("step %d", parent)
	switch {
	case d.run.Canceling:
		d.cut(t, "cancel")
		return
	case d.run.Failing && d.stoppable(t):
		d.stop(t, Canceled, Event{Kind: EventCanceled, By: "fail_fast"})
		return
	}
	switch DecideVerdict(t.Flags, t.Traits, t.Parents > 0) {
	case VerdictCancel:
		d.stop(t, Canceled, Event{Kind: EventCanceled, By: by})
	case VerdictFail:
		d.fail(t, Event{Kind: EventFailed, Class: "condition", Text: t.Error})
	case VerdictSkip:
		d.stop(t, Skipped, Event{Kind: EventSkipped, By: by})
	case VerdictRun:
		d.ready(t, lane)
	}
}

// ready lets a task begin: a function goes into the queue, a sleep sets its
// timer.
func (d *decider) ready(t *Task, lane Lane) {
	switch {
	case t.Traits.Has(workflow.TraitSleep):
		d.sleep(t, d.now.Add(t.Sleep))
	case t.Traits.Has(workflow.TraitSleepUntil):
		if t.WakeAt.IsZero() {
			d.fail(t, Event{Kind: EventFailed, Class: "condition", Text: "sleep until: no instant was given"})
			return
		}
		d.sleep(t, t.WakeAt)
	default:
		d.enqueue(t, lane, Event{Kind: EventQueued})
	}
}

func (d *decider) sleep(t *Task, until time.Time) {
	d.run.Slow = true
	d.move(t, Sleeping, Event{Kind: EventSleeping, WakeAt: until})
	d.out.Timers = append(d.out.Timers, Timer{Step: t.Step, Kind: SleepTimer, At: until, Epoch: t.Epoch})
}

func (d *decider) enqueue(t *Task, lane Lane, event Event) {
	d.move(t, Queued, event)
	d.out.Enqueued = append(d.out.Enqueued, Enqueue{Step: t.Step, Lane: lane, Suspect: t.Lost > 0})
	if t.StartTimeout > 0 {
		d.out.Timers = append(d.out.Timers,
			Timer{Step: t.Step, Kind: QueueTimer, At: d.now.Add(t.StartTimeout), Epoch: t.Epoch})
	}
}

// stop ends a task that did not get to run.
func (d *decider) stop(t *Task, state State, event Event) {
	d.run.Slow = true
	d.move(t, state, event)
}

// cut ends a task because the run was asked to stop.
func (d *decider) cut(t *Task, by string) {
	d.run.Cut = true
	d.stop(t, Canceled, Event{Kind: EventCanceled, By: by})
}

// stoppable reports whether FailFast applies to a task.
func (d *decider) stoppable(t *Task) bool {
	return !t.Traits.Has(workflow.TraitHoldsSettled) && !t.Traits.Has(workflow.TraitOnFailure)
}

// fail ends a task as failed and applies the failure policy of the run.
func (d *decider) fail(t *Task, event Event) {
	t.Class, t.Error = event.Class, event.Text
	d.run.Slow = true
	d.move(t, Failed, event)
	if Handled(t.Children) {
		return
	}
	d.run.Unhandled = true
	if d.run.Policy != workflow.FailFast || d.run.Failing || t.Traits.Has(workflow.TraitOnFailure) {
		return
	}
	d.run.Failing = true
	d.sweep(func(t *Task) {
		if d.stoppable(t) {
			d.stop(t, Canceled, Event{Kind: EventCanceled, By: "fail_fast"})
		}
	})
}

// sweep visits the tasks that wait to run: queued, sleeping and backoff.
// Pending ones are reached by the cascade once their parents have ended, which
// keeps a task from ending before its parents.
func (d *decider) sweep(visit func(*Task)) {
	if !d.all() {
		return
	}
	for i := range d.tasks {
		if t := &d.tasks[i]; t.State == Queued || t.State == Sleeping || t.State == Backoff {
			visit(t)
		}
	}
}

// endRun ends the run once nothing is left to do, or makes the task of the
// failure handler first.
func (d *decider) endRun() {
	if d.run.State != Running || d.run.Remaining > 0 || len(d.out.Missing) > 0 || d.out.MissingAll {
		return
	}
	if d.run.Unhandled && d.run.HasHandler && !d.run.HandlerMade && !d.run.Canceling {
		d.makeHandler()
		return
	}
	switch {
	case d.run.Unhandled:
		d.moveRun(Failed, Event{Kind: EventRunFailed})
	case d.run.Cut:
		d.moveRun(Canceled, Event{Kind: EventRunCanceled})
	default:
		d.moveRun(Completed, Event{Kind: EventRunCompleted})
	}
}

func (d *decider) makeHandler() {
	d.run.HandlerMade = true
	d.run.Remaining = 1
	handler := Task{Step: d.run.Steps, State: Queued, Traits: workflow.TraitOnFailure, Epoch: 1}
	d.out.Created = append(d.out.Created, handler)
	d.out.Events = append(d.out.Events, Event{Step: handler.Step, N: 1, Kind: EventQueued, At: d.now})
	d.out.Enqueued = append(d.out.Enqueued, Enqueue{Step: handler.Step, Lane: LaneContinuing})
}

// moveRun is the only place where a run changes its state.
func (d *decider) moveRun(next State, event Event) {
	if err := CheckRun(d.run.State, next); err != nil {
		panic(err)
	}
	d.run.State = next
	d.noteRun(event)
	if next.Terminal() {
		d.out.Ended = true
		d.out.DropTimers = append(d.out.DropTimers, RunStep)
	}
}

func (d *decider) noteRun(event Event) {
	d.run.Events++
	event.Step, event.N, event.At = RunStep, d.run.Events, d.now
	d.out.Events = append(d.out.Events, event)
}
