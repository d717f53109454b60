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
		d.lane = LaneContinuing
		answer := d.apply(fact)
		d.drain()
		d.endRun()
		d.out.Answers = append(d.out.Answers, answer)
		if d.out.MissingAll {
			break
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
	tasks    []Task // those loaded, then those created
	loaded   int    // how many were loaded
	index    map[int32]int
	changed  map[int32]bool
	ended    []int32 // tasks whose children have not been told yet
	lane     Lane    // of tasks that become ready
	judged   map[int32]bool
	places   map[int32]int // index in out.Enqueued of the place that stands
	timers   map[int32]int // index in out.Timers of the timer that stands
	out      Decision
}

func newDecider(run Run, rows Rows, now time.Time) *decider {
	d := &decider{
		now: now, before: run, run: run, complete: rows.Complete,
		tasks:   slices.Clone(rows.Tasks),
		loaded:  len(rows.Tasks),
		index:   make(map[int32]int, len(rows.Tasks)),
		changed: make(map[int32]bool, len(rows.Tasks)),
		judged:  make(map[int32]bool),
		places:  make(map[int32]int),
		timers:  make(map[int32]int),
	}
	for i := range d.tasks {
		d.index[d.tasks[i].Step] = i
	}
	return d
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

// decision gathers what changed. Effects that the same decision took back are
// left out.
func (d *decider) decision() Decision {
	for i := range d.loaded {
		if d.changed[d.tasks[i].Step] {
			d.out.Tasks = append(d.out.Tasks, d.tasks[i])
		}
	}
	slices.SortFunc(d.out.Tasks, func(a, b Task) int { return int(a.Step) - int(b.Step) })
	d.out.Created = append(d.out.Created, d.tasks[d.loaded:]...)
	d.out.Enqueued = standing(d.out.Enqueued, d.places, func(e Enqueue) int32 { return e.Step })
	d.out.Timers = standing(d.out.Timers, d.timers, func(t Timer) int32 { return t.Step })
	slices.Sort(d.out.DropTimers)
	d.out.DropTimers = slices.Compact(d.out.DropTimers)
	slices.Sort(d.out.Missing)
	d.out.Missing = slices.Compact(d.out.Missing)
	d.out.Run, d.out.RunChanged = d.run, d.run != d.before
	return d.out
}

// standing keeps the effects that index names, in order.
func standing[E any](effects []E, index map[int32]int, step func(E) int32) []E {
	kept := effects[:0]
	for i, effect := range effects {
		if at, ok := index[step(effect)]; ok && at == i {
			kept = append(kept, effect)
		}
	}
	return kept
}

// all reports whether every task that is not terminal is at hand, and asks for
// them otherwise.
func (d *decider) all() bool {
	d.out.MissingAll = d.out.MissingAll || !d.complete
	return d.complete
}

// named returns the row of the task that a fact is about, or nil: the row was
// not loaded, or there is no such task.
func (d *decider) named(step int32) *Task {
	i, ok := d.index[step]
	if ok {
		return &d.tasks[i]
	}
	if !d.complete {
		d.out.Missing = append(d.out.Missing, step)
	}
	return nil
}

// child returns the row of a child of a task that is at hand, or nil and notes
// that it is missing.
func (d *decider) child(step int32) *Task {
	i, ok := d.index[step]
	if !ok {
		d.out.Missing = append(d.out.Missing, step)
		return nil
	}
	return &d.tasks[i]
}

// move is the only place where a task changes its state: it checks the table,
// raises the epoch and writes the event.
func (d *decider) move(t *Task, next State, event Event) {
	if err := CheckTask(t.State, next); err != nil {
		panic(err)
	}
	d.dropEffects(t)
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

// dropEffects takes back what waits for a task that moves on: its place in the
// queue if this same decision gave it one, and its timer. The claim leaves the
// timer of a queued task alone, so a running one may still have it.
func (d *decider) dropEffects(t *Task) {
	switch {
	case t.State == Sleeping, t.State == Backoff,
		t.StartTimeout > 0 && (t.State == Queued || t.State == Running):
		d.out.DropTimers = append(d.out.DropTimers, t.Step)
	}
	delete(d.places, t.Step)
	delete(d.timers, t.Step)
}

func (d *decider) place(e Enqueue) {
	d.places[e.Step] = len(d.out.Enqueued)
	d.out.Enqueued = append(d.out.Enqueued, e)
}

func (d *decider) setTimer(t Timer) {
	t.At = Instant(t.At)
	d.timers[t.Step] = len(d.out.Timers)
	d.out.Timers = append(d.out.Timers, t)
}

// drain tells the children of ended tasks, breadth-first and without
// recursion, so that a chain of any length is fine.
func (d *decider) drain() {
	for len(d.ended) > 0 {
		parent := d.tasks[d.index[d.ended[0]]]
		d.ended = d.ended[1:]
		for _, edge := range parent.Children {
			child := d.child(edge.Step)
			if child == nil {
				continue
			}
			flags := EdgeFlags(edge, parent.State)
			child.Pending--
			child.Flags |= flags
			d.changed[child.Step] = true
			if child.Pending == 0 && child.State == Pending {
				d.settle(child, ending{parent.Step, flags})
			}
		}
	}
}

// ending is the end of a parent as its child sees it.
type ending struct {
	step  int32
	flags Flags
}

// blame names what stops a task whose verdict is not to run: its last parent,
// a condition on it, or else what its row knows from before.
func (d *decider) blame(t *Task, last ending, decisive Flags) string {
	switch {
	case last.step == RunStep:
		return "input"
	case last.flags&decisive != 0 || t.Flags&decisive == 0:
		return fmt.Sprintf("step %d", last.step)
	case d.judged[t.Step]:
		return fmt.Sprintf("condition on step %d", last.step)
	}
	return "earlier parent or condition"
}

// stopsWith reports whether the failure policy applies to a task: one that
// holds a parent by Settled keeps its ordinary verdict, and the failure
// handler is there for failures.
func stopsWith(traits workflow.Traits) bool {
	return traits&(workflow.TraitHoldsSettled|workflow.TraitOnFailure) == 0
}
