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

	Inbox      []Entry // signals that no step has taken, in the order of their delivery
	InboxKnown bool    // they were loaded

	Maps []Map // how far maps of the run have come
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
		if d.out.MissingAll || d.out.MissingInbox || len(d.out.MissingMaps) > 0 {
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
	tasks    []Task        // those loaded, then those created
	marks    []mark        // beside tasks
	loaded   int           // how many were loaded
	index    map[int32]int // of tasks by step; nil until it is needed
	ended    []int32       // tasks whose children have not been told yet
	lane     Lane          // of tasks that become ready
	runTimer int           // as mark.timer, of the run itself
	inbox    inbox
	maps     []mapping
	out      Decision
}

// mark is what a decision notes on a task besides its row. A place or a timer
// is the one that stands if several were given in turn: its index in the
// output, plus one; 0: none stands.
type mark struct {
	changed, judged bool
	place, timer    int
}

// fewTasks are looked through faster than a map of them is made.
const fewTasks = 16

func newDecider(run Run, rows Rows, now time.Time) *decider {
	return &decider{
		now: now, before: run, run: run, complete: rows.Complete,
		tasks:  slices.Clone(rows.Tasks),
		marks:  make([]mark, len(rows.Tasks)),
		loaded: len(rows.Tasks),
		inbox:  inbox{entries: slices.Clone(rows.Inbox), known: rows.InboxKnown},
		maps:   mappings(rows.Maps),
	}
}

// at returns where the row of a step is, or that it is not at hand. All rows of
// a run, in order, are where their step says.
func (d *decider) at(step int32) (int, bool) {
	if step >= 0 && int(step) < len(d.tasks) && d.tasks[step].Step == step {
		return int(step), true
	}
	if len(d.tasks) <= fewTasks {
		i := slices.IndexFunc(d.tasks, func(t Task) bool { return t.Step == step })
		return i, i >= 0
	}
	if d.index == nil {
		d.index = make(map[int32]int, len(d.tasks))
		for i := range d.tasks {
			d.index[d.tasks[i].Step] = i
		}
	}
	i, ok := d.index[step]
	return i, ok
}

// note returns the mark of a task that is at hand.
func (d *decider) note(step int32) *mark {
	i, _ := d.at(step)
	return &d.marks[i]
}

func (d *decider) apply(fact Fact) Answer {
	switch f := fact.(type) {
	case RunStarted:
		return d.start()
	case TaskReported:
		return d.report(f)
	case SignalArrived:
		return d.arrive(f)
	case ChildEnded:
		return d.childEnded(f)
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
	changed := 0
	for i := range d.loaded {
		if d.marks[i].changed {
			changed++
		}
	}
	d.out.Tasks = slices.Grow(d.out.Tasks, changed)
	for i := range d.loaded {
		if d.marks[i].changed {
			d.out.Tasks = append(d.out.Tasks, d.tasks[i])
		}
	}
	slices.SortFunc(d.out.Tasks, func(a, b Task) int { return int(a.Step) - int(b.Step) })
	d.out.Created = append(d.out.Created, d.tasks[d.loaded:]...)
	d.out.Enqueued = standing(d.out.Enqueued, func(e Enqueue) int { return d.note(e.Step).place })
	d.out.Timers = standing(d.out.Timers, func(t Timer) int { return *d.timerOf(t.Step) })
	slices.Sort(d.out.DropTimers)
	d.out.DropTimers = slices.Compact(d.out.DropTimers)
	slices.Sort(d.out.Missing)
	d.out.Missing = slices.Compact(d.out.Missing)
	d.gatherMaps()
	d.out.Run, d.out.RunChanged = d.run, d.run != d.before
	return d.out
}

// standing keeps the effects that their marks name, in order.
func standing[E any](effects []E, named func(E) int) []E {
	kept := effects[:0]
	for i, effect := range effects {
		if named(effect) == i+1 {
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
	i, ok := d.at(step)
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
	i, ok := d.at(step)
	if !ok {
		d.out.Missing = append(d.out.Missing, step)
		return nil
	}
	return &d.tasks[i]
}

// move is the only place where a task changes its state: it checks the table,
// raises the epoch and writes the event. The wake of a machine has none (Kind 0): the event that
// ends the activation stands for it.
func (d *decider) move(t *Task, next State, event Event) {
	if err := CheckTask(t.State, next); err != nil {
		panic(err)
	}
	d.dropEffects(t)
	if t.State == Waiting && next == Canceled && t.Traits&(workflow.TraitChild|workflow.TraitAbandons) == workflow.TraitChild {
		d.stopChild(t.Step)
	}
	t.State = next
	t.Epoch++
	if event.Kind != 0 {
		event.Step, event.N, event.At = t.Step, t.Epoch, d.now
		d.tell(event)
	}
	d.note(t.Step).changed = true
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
	case t.State == Sleeping, t.State == Backoff, t.State == Waiting && t.Sleep > 0 && t.Traits.Has(workflow.TraitWaits),
		t.State == Running && t.stopped(), t.StartTimeout > 0 && (t.State == Queued || t.State == Running):
		d.out.DropTimers = append(d.out.DropTimers, t.Step)
	}
	m := d.note(t.Step)
	m.place, m.timer = 0, 0
}

// tell writes an event. Most decisions have a few.
func (d *decider) tell(event Event) {
	if d.out.Events == nil {
		d.out.Events = make([]Event, 0, 4)
	}
	d.out.Events = append(d.out.Events, event)
}

func (d *decider) place(e Enqueue) {
	d.out.Enqueued = append(d.out.Enqueued, e)
	d.note(e.Step).place = len(d.out.Enqueued)
}

func (d *decider) setTimer(t Timer) {
	t.At = Instant(t.At)
	d.out.Timers = append(d.out.Timers, t)
	*d.timerOf(t.Step) = len(d.out.Timers)
}

// timerOf is where the timer of a task, or of the run, is noted.
func (d *decider) timerOf(step int32) *int {
	if step == RunStep {
		return &d.runTimer
	}
	return &d.note(step).timer
}

// drain tells the children of ended tasks, breadth-first and without
// recursion, so that a chain of any length is fine.
func (d *decider) drain() {
	for len(d.ended) > 0 {
		at, _ := d.at(d.ended[0])
		parent := d.tasks[at]
		d.ended = d.ended[1:]
		for _, edge := range parent.Children {
			child := d.child(edge.Step)
			if child == nil {
				continue
			}
			flags := EdgeFlags(edge, parent.State)
			child.Pending--
			child.Flags |= flags
			d.note(child.Step).changed = true
			if child.Pending == 0 && child.State == Pending {
				d.settle(child, ending{parent.Step, flags})
			}
		}
		switch {
		case parent.IsElement():
			d.elementEnded(&parent)
		case parent.IsSpawned():
			d.spawnedEnded(&parent)
		case parent.Traits.Has(workflow.TraitMachine):
			d.machineEnded(&parent)
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
	case d.note(t.Step).judged:
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
