package statemachine

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Activation is what a handler works with: the state of the machine, and what happened. It is valid
// until the handler returns. What the handler decides takes effect together with the state, once
// that is stored, or not at all.
//
// Handlers are deterministic: they read nothing but the state, their arguments and the activation.
// They have no context, since they wait for nothing; an activity does what takes time.
type Activation[S, O any] struct {
	// State is the machine's own, which the handler may change. It is stored after the activation.
	State S
	// ID says what has ended: as Start returned it. It is empty in OnStart, OnSignal and OnCancel.
	ID string

	turn *turn
	done bool
	out  O
}

// Acting is an [Activation] of any machine.
type Acting interface{ acting() *turn }

func (a *Activation[S, O]) acting() *turn { return a.turn }

// turn is what one activation has decided so far.
type turn struct {
	machine   *program.Program
	open      bool // a handler is being called
	run       troupe.RunID
	entry     int64
	now       time.Time
	random    *rand.Rand //nolint:forbidigo // of the handler that is being called, seeded with what that is for
	started   int32      // by the machine, those of this activation included
	starts    []start
	cancels   []int32
	canceled  map[int32]bool // in this activation
	refused   []persistence.RefusedSignal
	ended     bool
	overflows bool  // too much is started
	err       error // of Fail
}

// start is something that the activation starts.
type start struct {
	step   string
	kind   workflow.StepKind
	id     string
	input  any
	wakeAt time.Time
}

// Now returns the instant of the event that the handler is called for: when the run began, when the
// activity ended, when the signal was sent. It is the same each time that the handler is called for
// this event.
func (a *Activation[S, O]) Now() time.Time { return a.turn.now }

// Rand returns random numbers. They are the same each time that the handler is called for this
// event.
func (a *Activation[S, O]) Rand() *rand.Rand { //nolint:forbidigo // it is seeded with what it is for
	t := a.turn
	if t.random == nil {
		t.random = rand.New(rand.NewPCG(binary.BigEndian.Uint64(t.run[8:])^uint64(t.entry), binary.BigEndian.Uint64(t.run[:8]))) //nolint:gosec,forbidigo // it has to repeat
	}
	return t.random
}

// Run returns the run that the machine is.
func (a *Activation[S, O]) Run() troupe.RunID { return a.turn.run }

// Complete ends the machine with its output. What it has left open is canceled, and so is what this
// activation starts. Handlers of entries that have come meanwhile are not called.
func (a *Activation[S, O]) Complete(out O) {
	a.turn.end("Complete")
	a.done, a.out = true, out
}

// Fail ends the machine, and its run, with an error; [troupe.Class] gives it a class. What it has
// left open is canceled. Nothing that the handlers of this activation decided is kept, so that a
// run which continues this one calls them again: see docs/state-machines.md about requeues.
func (a *Activation[S, O]) Fail(err error) {
	if err == nil {
		panic("statemachine: Fail was called without an error")
	}
	a.turn.end("Fail")
	a.turn.err = err
}

// Cancel cancels what the machine has started under an id: an activity, a timer or a child run. A
// timer that was canceled does not fire any more. An activity or child run that has completed all
// the same, or does so before it hears of the cancel, is heard of as ever; otherwise the machine
// does not hear of it again. Canceling what has ended changes nothing, and neither does an empty id.
// Any other id that Start has not returned is a mistake: Cancel panics.
func (a *Activation[S, O]) Cancel(id string) {
	t := a.turn
	t.check("Cancel")
	if id == "" {
		return
	}
	_, n := lifecycle.SpawnedAs(id)
	if n == 0 || n > t.started {
		panic(fmt.Sprintf("statemachine: Cancel(%q): the machine has started nothing under this id: use one that Start returned", id))
	}
	if !t.canceled[n] {
		t.canceled[n] = true
		t.overflows = t.overflows || len(t.starts)+len(t.cancels) >= persistence.DynamicMax
		t.cancels = append(t.cancels, n)
	}
}

// check panics unless a handler is being called.
func (t *turn) check(what string) {
	if t == nil || !t.open {
		panic("statemachine: " + what + " was called outside a handler of the machine, or after that had returned")
	}
}

func (t *turn) end(how string) {
	t.check(how)
	if t.ended {
		panic("statemachine: " + how + " was called, and the machine has ended already: call Complete or Fail once")
	}
	t.ended = true
}

// ref is what a machine has declared and may start.
type ref struct {
	machine *program.Program
	name    string
	kind    workflow.StepKind
}

func (r ref) of() ref { return r }

// begin adds something to what the activation starts.
func (r ref) begin(a Acting, input any, at time.Time) (id string) {
	t := a.acting()
	t.check(fmt.Sprintf("Start of %q", r.name))
	switch {
	case r.machine == nil:
		panic("statemachine: Start of an empty ref: use what Activity, Child or Timer returned")
	case r.machine != t.machine:
		panic(fmt.Sprintf("statemachine: Start of %q, which is of machine %q, in a handler of machine %q: declare it there, too",
			r.name, r.machine.Definition.Name, t.machine.Definition.Name))
	}
	t.overflows = t.overflows || len(t.starts)+len(t.cancels) >= persistence.DynamicMax
	t.started++
	id = lifecycle.SpawnedName(r.name, t.started)
	t.starts = append(t.starts, start{step: r.name, kind: r.kind, id: id, input: input, wakeAt: at})
	return id
}

// Start starts the activity with an input, when the activation is stored. It returns the id under
// which the machine hears of its end, such as "charge#3": it is the third thing that the machine
// has started.
func (r ActivityRef[In, Out]) Start(a Acting, in In) (id string) { return r.begin(a, in, time.Time{}) }

// Start starts a run of the workflow with an input, when the activation is stored. It returns the id
// under which the machine hears of its end.
func (r ChildRef[CI, CO]) Start(a Acting, in CI) (id string) { return r.begin(a, in, time.Time{}) }

// Start starts the timer: it fires that long after what the handler is called for. One that is not
// positive fires at once. It returns the id under which the machine hears of it.
func (r TimerRef) Start(a Acting, wait time.Duration) (id string) {
	if wait > workflow.DurationMax {
		panic(fmt.Sprintf("statemachine: timer %q: %v is over 100 years: use a shorter duration", r.name, wait))
	}
	t := a.acting()
	t.check(fmt.Sprintf("Start of %q", r.name))
	return r.begin(a, nil, t.now.Add(max(wait, 0)))
}

// StartAt starts the timer: it fires at an instant, or at once if that is in the past. It returns
// the id under which the machine hears of it.
func (r TimerRef) StartAt(a Acting, at time.Time) (id string) {
	t := a.acting()
	t.check(fmt.Sprintf("StartAt of %q", r.name))
	if at.Before(t.now) {
		at = t.now
	}
	if at.Sub(t.now) > workflow.DurationMax {
		panic(fmt.Sprintf("statemachine: timer %q: %v is over 100 years away: use an earlier instant", r.name, at))
	}
	return r.begin(a, nil, at)
}
