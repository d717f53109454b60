package persistence

import (
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// Bounds of machines.
const (
	// EntriesMax and EntriesBytes bound the entries that one activation gets: the rest makes
	// another one. An entry that is larger comes alone.
	EntriesMax, EntriesBytes = 1000, 1 << 20
	// MachineKeep bounds the entries that are kept of a machine once it has handled them: between
	// half of them and all of them can be replayed. The rows of older ones are removed, a few with
	// each activation.
	MachineKeep = 10_000
)

// ErrNoMachine says that a run is not of a machine.
var ErrNoMachine = errors.New("the run is not of a machine")

// EntryKind says what an entry of the inbox of a machine is about. The codes are stored in what is
// exported.
type EntryKind uint8

// The kinds of entries.
const (
	EntryCompleted EntryKind = 2 // an activity or a child run has completed: Payload
	EntryFailed    EntryKind = 3 // one has failed for good, or a child run has no output: Class, Error
	EntryFired     EntryKind = 5 // a timer has fired
	EntrySignal    EntryKind = 6 // a signal has come: Payload
	EntryCancel    EntryKind = 7 // the run was asked to stop: Error is the reason
)

// MachineEntry is an entry of the inbox of a machine.
type MachineEntry struct {
	N       int64
	Kind    EntryKind
	At      time.Time // when it happened; of a signal: when it was sent
	Name    string    // of what has ended, as lifecycle.SpawnedName gives it; of a signal its own
	Payload []byte
	Class   string
	Error   string
}

// MachineGrant is what an activation of a machine begins with.
type MachineGrant struct {
	Version int32  // of the state; 0: there is none, and the activation starts the machine
	State   []byte // of the embedder
	Taken   int64  // entries up to this number were handled
	Arrived int64  // entries up to this number are here, or are not to be heard
	Started int32  // how many activities, timers and child runs the machine has started
	Entries []MachineEntry
}

// Activation is what an activation of a machine has decided. The store writes all of it together,
// or nothing.
type Activation struct {
	Taken   int64 // MachineGrant.Arrived
	Heard   int32 // how many entries that are
	Version int32 // of the state; 0: the state stays as it is
	State   []byte
	// Definition is that of the program that executed the activation. The run continues with it.
	Definition workflow.Hash
	Start      []Spawn
	Refused    []RefusedSignal
	Cancel     []int32 // as the how manieth the machine has started what it cancels
}

// RefusedSignal is a signal whose payload the program cannot read.
type RefusedSignal struct{ Name, Why string }

// Canceled returns the tasks that the activation cancels.
func (a *Activation) Canceled() (steps []int32) {
	for _, n := range a.Cancel {
		steps = append(steps, workflow.MachineSteps+n)
	}
	return steps
}

// Spawn is an activity, a timer or a child run that a machine starts.
type Spawn struct {
	Step   string // of the definition of the program
	Input  []byte
	WakeAt time.Time // of a timer
}

// EntryQuery selects entries of the inbox of a machine.
type EntryQuery struct {
	After int64 // entries with higher numbers
	Limit int   // at most EntriesMax; 0: none are read
}

// MachineRow is how far a machine has come, as a reader sees it, with a page of its inbox.
type MachineRow struct {
	Version int32 // of the state; 0: no activation is recorded
	State   []byte
	Taken   int64 // entries up to this number were handled
	Arrived int64 // the number of the last entry; those above Taken wait
	Started int32

	// Base is where the entries begin that are kept: BaseState and BaseVersion are those that the
	// machine had then, and BaseStarted is how many activities, timers and child runs it had started;
	// version 0: it had not begun.
	Base        int64
	BaseVersion int32
	BaseState   []byte
	BaseStarted int32

	Entries []MachineEntry // by number
	More    bool           // there are others behind them
}

// Crosses reports whether an activation that handles the entries behind one number up to another
// makes a mark: every so often the state is kept from which entries can be replayed.
func Crosses(before, after int64) bool {
	const half = MachineKeep / 2
	return before/half != after/half
}

// Trims returns how many of the rows that are no longer needed an activation removes, of what the
// machine has started and of signals: 0 for most activations, since every hundredth entry, or thing
// that is started, removes twice as many as may have come since the last. started is how many things
// the machine has started by now.
func (a *Activation) Trims(started int32) int {
	const every = 100
	before, began := a.Taken-int64(a.Heard), started-int32(len(a.Start))
	if a.Taken < MachineKeep || before/every == a.Taken/every && began/every == started/every {
		return 0
	}
	return 2 * (every + int(a.Heard) + len(a.Start))
}

// Decided returns what lifecycle has to know of the activation of a transition, or as ErrBadRow why
// a store refuses it. program is the graph of its Definition, nil: that is not registered; name is
// the workflow of the run. Without an activation it returns nil.
func (t *Transition) Decided(name string, program *workflow.Graph) (*lifecycle.Activation, error) {
	a := t.Activation
	if a == nil {
		return nil, nil
	}
	bad := func(format string, args ...any) (*lifecycle.Activation, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{ErrBadRow}, args...)...)
	}
	switch {
	case t.Report != lifecycle.Yielded && t.Report != lifecycle.Succeeded, t.Child != nil, t.Map != nil:
		return bad("only a machine is activated, and yields or completes")
	case program == nil:
		return bad("the definition of the machine is not registered: register it again")
	case !program.IsMachine() || program.Name != name:
		return bad("the activation is of workflow %.40q: the run is one of %.40q", program.Name, name)
	case len(a.Start)+len(a.Cancel) > DynamicMax:
		return bad("an activation starts and cancels %d activities, timers and child runs: at most %d at once", len(a.Start)+len(a.Cancel), DynamicMax)
	}
	d := &lifecycle.Activation{Taken: a.Taken, Heard: a.Heard, Deaf: len(program.Signals()) == 0}
	steps := make(map[string]int32, len(program.Nodes))
	for i := range program.Nodes {
		steps[program.Nodes[i].Name] = int32(i)
	}
	for _, s := range a.Start {
		step, known := steps[s.Step]
		if !known || step == 0 || program.Nodes[step].Kind == workflow.Wait {
			return bad("the machine has no activity, timer or child run %.40q", s.Step)
		}
		node := &program.Nodes[step]
		if node.Kind == workflow.SleepUntil && s.WakeAt.IsZero() {
			return bad("timer %.40q has no instant", s.Step)
		}
		task := lifecycle.NewDynamic(step, node, s.Step)
		if node.Kind == workflow.SleepUntil {
			task.WakeAt = lifecycle.Instant(s.WakeAt)
		}
		d.Start = append(d.Start, task)
	}
	for _, r := range a.Refused {
		d.Refused = append(d.Refused, lifecycle.RefusedSignal(r))
	}
	d.Cancel = a.Canceled()
	return d, nil
}
