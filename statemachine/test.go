package statemachine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// ErrOpen is returned by [Test.Result] for a machine that has not ended.
var ErrOpen = errors.New("the machine has not ended")

// Action is something that a machine has started.
type Action struct {
	ID    string    // as Start returned it, such as "charge#3"
	Step  string    // what was started: "charge"
	Kind  string    // "activity", "timer" or "child"
	Input any       // of an activity or a child run, of its type; of a timer nil
	At    time.Time // of a timer: when it fires
}

// Test is a machine without an engine, a database and a clock: [Machine.Test] makes it, and a test
// delivers what happens, one event after the other, and looks at the state and at what the machine
// has started.
//
// The handlers are called as an engine calls them: with a state that was encoded and decoded since
// the event before, with the same ids, and with the same instants each time. Each event is handled
// twice, from the same state. If both do not give the same, a handler is not deterministic, and the
// test panics with its name.
//
// Methods panic if the test is wrong: if it completes what is not open, with a value of another
// type, or after the machine has ended. A panic of a handler is not caught. What a handler
// decides is no panic: see [Test.Ended] and [Test.Err]. A Test is not safe for concurrent use.
type Test[S, O any] struct {
	about   *program.Program
	declare map[string]*program.Function // by the name of an activity, a child or a signal
	signals map[string]bool
	within  time.Duration // that OnCancel has; 0: there is none
	decide  func(canceled map[int32]bool, in actors.Inputs) (*persistence.Activation, any, bool, error)
	restore func(version int32, state []byte) (S, error)

	input   []byte
	begun   time.Time
	now     time.Time
	machine persistence.MachineGrant

	open     []Action
	stopping []Action       // activities and child runs that the machine has canceled: they may complete all the same
	canceled map[int32]bool // by the machine
	cancelBy time.Time      // when a cancel ends the machine; zero: it was not asked to stop
	started  []Action       // by the last event
	cancels  []string       // the same
	ended    bool
	output   O
	failure  error
}

// testBegins is when the machine of a test starts.
var testBegins = time.Date(2030, time.January, 1, 12, 0, 0, 0, time.UTC)

// Test starts the machine with an input, and returns it as OnStart has left it. It panics if the
// machine is wrong: see [Machine.Validate].
func (m *Machine[I, S, O]) Test(in I) *Test[S, O] { return m.TestAt(testBegins, in) }

// TestAt is [Machine.Test] for a machine that starts at an instant; that of Test is
// 2030-01-01T12:00:00Z.
func (m *Machine[I, S, O]) TestAt(at time.Time, in I) *Test[S, O] {
	if err := m.Validate(); err != nil {
		panic("statemachine: " + err.Error())
	}
	input, err := program.Encode(troupe.JSON{}, in)
	if err != nil {
		panic(fmt.Sprintf("statemachine: encode the input of type %T: %v", in, err))
	}
	p := m.plan
	t := &Test[S, O]{
		about: &p.program, declare: map[string]*program.Function{}, signals: map[string]bool{}, canceled: map[int32]bool{},
		within: p.program.Definition.Steps[0].Sleep, input: input, begun: micros(at), now: micros(at),
		decide: func(canceled map[int32]bool, in actors.Inputs) (*persistence.Activation, any, bool, error) {
			return p.decide(testRun, canceled, troupe.JSON{}, in)
		},
		restore: func(version int32, state []byte) (S, error) { return p.restore(troupe.JSON{}, version, state) },
	}
	for i := range p.program.Definition.Steps {
		s := &p.program.Definition.Steps[i]
		t.declare[s.Name] = &p.program.Functions[i]
		t.signals[s.Name] = s.Kind == workflow.Wait
	}
	t.activate(nil)
	return t
}

// testRun is the run that the machine of a test is.
var testRun = troupe.RunID{0: 0x01, 6: 0x70, 8: 0x80, 15: 0x01}

// State returns the state as the last event has left it. It is a copy, decoded from what would be
// stored.
func (t *Test[S, O]) State() S {
	if t.machine.Version == 0 { // OnStart has failed
		var none S
		return none
	}
	state, err := t.restore(t.machine.Version, t.machine.State)
	if err != nil {
		panic("statemachine: " + err.Error())
	}
	return state
}

// Open returns the activities, timers and child runs that have not ended, in the order in which they
// were started.
func (t *Test[S, O]) Open() []Action { return slices.Clone(t.open) }

// Started returns what the last event has started, in order; after [Test.Advance] all that the timers
// have.
func (t *Test[S, O]) Started() []Action { return slices.Clone(t.started) }

// Canceled returns the ids of what the last event has canceled, in order: by Cancel, and at the end
// of the machine all that was open.
func (t *Test[S, O]) Canceled() []string { return slices.Clone(t.cancels) }

// Now returns the instant of the clock of the test, which [Test.Advance] moves.
func (t *Test[S, O]) Now() time.Time { return t.now }

// Run returns the id of the run that handlers see.
func (t *Test[S, O]) Run() troupe.RunID { return testRun }

// Ended reports whether the machine has ended: with Complete, Fail, a cancel, or because the engine
// would end it, as after the failure of an activity that it does not handle.
func (t *Test[S, O]) Ended() bool { return t.ended }

// Err returns the error with which the machine has ended, as an [*EndError]; nil: it completed, or
// has not ended.
func (t *Test[S, O]) Err() error { return t.failure }

// Result returns the output of a machine that has completed. Of one that has not it returns [ErrOpen],
// or what Err does.
func (t *Test[S, O]) Result() (O, error) {
	if !t.ended {
		return t.output, ErrOpen
	}
	return t.output, t.failure
}

// EndError says how the machine of a test ended, if not with an output. It unwraps to the error that
// was given to Fail, and to [troupe.ErrRunFailed] or [troupe.ErrRunCanceled].
type EndError struct {
	State troupe.State // StateFailed or StateCanceled
	Class string       // that the run would have; of a cancel ""
	cause error
}

// Error implements error.
func (e *EndError) Error() string {
	text := fmt.Sprintf("the machine ended %v", e.State)
	if e.Class != "" {
		text += " (" + e.Class + ")"
	}
	return text + ": " + e.cause.Error()
}

// Unwrap makes the error match its cause, and ErrRunFailed or ErrRunCanceled.
func (e *EndError) Unwrap() []error {
	if e.State == troupe.StateCanceled {
		return []error{troupe.ErrRunCanceled, e.cause}
	}
	return []error{troupe.ErrRunFailed, e.cause}
}

// activate executes an activation for an event, or OnStart, twice.
func (t *Test[S, O]) activate(e *persistence.MachineEntry) {
	in := t.inputs(e)
	decided, output, done, err := t.decide(t.canceled, in)
	again, output2, done2, err2 := t.decide(t.canceled, t.inputs(e))
	if differs := difference(outcome{decided, output, done, err}, outcome{again, output2, done2, err2}); differs != "" {
		panic(fmt.Sprintf("statemachine: %s is not deterministic: called twice with the same, it gave %s: handlers read nothing but the state, their arguments and the activation",
			handlerOf(t.about, e), differs))
	}
	t.machine.Taken, t.machine.Arrived = in.Machine.Arrived, in.Machine.Arrived
	t.started, t.cancels = nil, nil
	if err != nil {
		t.end(troupe.StateFailed, cmp.Or(actors.ErrorClass(err), lifecycle.ClassMachine), err)
		return
	}
	t.machine.Version, t.machine.State = decided.Version, decided.State
	if done {
		t.output, _ = output.(O) // of an interface type it may be nil
		t.end(troupe.StateCompleted, "", nil)
		return
	}
	for _, s := range decided.Start {
		t.machine.Started++
		t.start(t.machine.Started, s)
	}
	t.cancel(decided.Cancel)
	t.judge()
}

// judge ends a machine that the engine would end.
func (t *Test[S, O]) judge() {
	hears := false
	for _, signal := range t.signals {
		hears = hears || signal
	}
	switch {
	case len(t.open) > lifecycle.OpenMax:
		t.end(troupe.StateFailed, lifecycle.ClassTooManyOpen, fmt.Errorf("%d activities, timers and child runs are open: at most %d may be", len(t.open), lifecycle.OpenMax))
	case len(t.open) == 0 && !hears && t.cancelBy.IsZero():
		t.end(troupe.StateFailed, lifecycle.ClassStalled, errors.New("the machine has nothing open, hears no signals and has not ended"))
	}
}

// inputs are those of an activation for an event.
func (t *Test[S, O]) inputs(e *persistence.MachineEntry) actors.Inputs {
	grant := t.machine
	grant.State = slices.Clone(grant.State)
	if e != nil {
		entry := *e
		entry.Payload = slices.Clone(e.Payload)
		grant.Arrived, grant.Entries = e.N, []persistence.MachineEntry{entry}
	}
	return actors.Inputs{Input: slices.Clone(t.input), BegunAt: t.begun, Machine: &grant}
}

// start opens what an activation has started.
func (t *Test[S, O]) start(n int32, s persistence.Spawn) {
	a := Action{ID: lifecycle.SpawnedName(s.Step, n), Step: s.Step, Kind: "timer", At: s.WakeAt}
	if f := t.declare[s.Step]; f.Spawn != nil {
		a.Kind = "activity"
		if f.Child != nil {
			a.Kind = "child"
		}
		into := reflect.New(f.Spawn)
		if err := json.Unmarshal(s.Input, into.Interface()); err != nil {
			panic(fmt.Sprintf("statemachine: the input of %s cannot be decoded again: %v", a.ID, err))
		}
		a.Input = into.Elem().Interface()
	}
	t.open, t.started = append(t.open, a), append(t.started, a)
}

// cancel ends what an activation cancels.
func (t *Test[S, O]) cancel(ns []int32) {
	for _, n := range ns {
		t.canceled[n] = true
		at := slices.IndexFunc(t.open, func(a Action) bool { _, nth := lifecycle.SpawnedAs(a.ID); return nth == n })
		if at < 0 {
			continue
		}
		a := t.open[at]
		t.cancels, t.open = append(t.cancels, a.ID), slices.Delete(t.open, at, at+1)
		if a.Kind != "timer" {
			t.stopping = append(t.stopping, a)
		}
	}
}

// end ends the machine, which cancels what is open.
func (t *Test[S, O]) end(state troupe.State, class string, cause error) {
	t.ended = true
	if state != troupe.StateCompleted {
		t.failure = &EndError{State: state, Class: class, cause: cause}
	}
	for _, a := range t.open {
		t.cancels = append(t.cancels, a.ID)
	}
	t.open, t.stopping, t.started = nil, nil, nil
}
