package sim

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/memory"
)

// Options say what a world is like.
type Options struct {
	Seed    uint64
	Classes []Class           // of the faults that may be drawn; nil: none
	Only    []string          // if not nil: only the faults of these names
	Scale   float64           // of the rates; 0: 1
	Usual   map[Class]float64 // rates of the workload's own classes, in the middle of what is drawn
	Order   Order             // how the next message is chosen
	Pace    Pace              // nil: Alone
	Trace   func(Line)
	Execute Execute // nil: step functions are coroutines of the world
	// Refuse is memory.Options.Refuse.
	Refuse func(payload []byte) error
	// Store returns what the pods call instead of the model. It must do to the
	// model what it does itself. The database's clock shows microseconds then,
	// as that of PostgreSQL does. Nil: the model.
	Store func(w *World) Store
	// Committed is called after every transaction of the database, unless it is nil.
	Committed func(call string)
	// Answered is called with the database's answer to a call of a pod, before
	// Committed, whether or not the pod hears it, unless it is nil.
	Answered func(p *Pod, call string, answer any, err error)
	// Reporting may add to what a pod reports before the database gets it, whenever it is sent,
	// unless it is nil.
	Reporting func(t *persistence.Transition)
	// Recorded is called with what the database says to a record, before Answered. It may be
	// nil.
	Recorded func(record persistence.Record, recorded persistence.Recorded)
	// InTxTries is how often a step with InTx is called in one attempt if its
	// transaction meets conflicts; 0: once.
	InTxTries int
	// RecordedInTx is called with every transition that was committed with the
	// transaction of its step, unless it is nil.
	RecordedInTx func(t persistence.Transition)
}

// Order is how the scheduler chooses among the actors with a message.
type Order uint8

// The orders.
const (
	Uniform  Order = iota // each is as likely
	FIFO                  // the one that became ready first
	Priority              // the lowest rank; ranks are drawn, and now and then changed
	Starve                // one pod after another waits for all others
)

// World is one database, the pods on it, and their time. What is not said to
// be safe for concurrent use is for the goroutine that steps the world.
type World struct {
	options  Options
	lab      *Lab
	seed     uint64
	pace     Pace
	start    time.Time
	system   *actors.System
	model    *memory.Store
	store    Store // what the pods call
	database *database
	bus      *bus
	faults   *Faults
	random   *rand.Rand // of the scheduler

	pods   []*Pod // all incarnations, in the order of their start
	ready  []*box
	joined int // pods that the database was told of
	steps  int
	spins  int // steps since time moved
	hash   uint64

	starved   int // index of the pod that waits; Starve
	starvedIn int // steps until it is another

	violation *Violation
	frozen    bool // no pod runs, and nothing that happens by the second

	mu       sync.Mutex // guards what follows
	timers   clock.Agenda
	arrivals []arrival
}

// Violation is a broken promise. It ends the world.
type Violation struct { //nolint:errname // a finding, not the failure of a call
	Promise string // e.g. "I3"
	Text    string
}

// Error implements error.
func (v *Violation) Error() string { return v.Promise + ": " + v.Text }

// New makes a world without pods.
func (l *Lab) New(options Options) *World {
	if options.Scale == 0 {
		options.Scale = 1
	}
	if options.Pace == nil {
		options.Pace = NewAlone()
	}
	w := &World{
		options: options, lab: l, seed: options.Seed, pace: options.Pace, start: options.Pace.Now(),
		faults: newFaults(options.Seed, options.Classes, options.Only, options.Scale, options.Usual),
		random: rand.New(rand.NewPCG(options.Seed, 1)), //nolint:gosec // seeded on purpose
		hash:   hashStart,
	}
	w.system = l.system()
	w.model = memory.New(memory.Options{Now: w.databaseNow, Refuse: options.Refuse})
	w.store = modelStore{w.model}
	if options.Store != nil {
		w.store = options.Store(w)
	}
	w.database = &database{world: w}
	w.bus = newBus(w)
	w.After(time.Second, w.second)
	return w
}

// Now is the time of the database. It is safe for concurrent use.
func (w *World) Now() time.Time { return w.pace.Now() }

// databaseNow is the clock of the model.
func (w *World) databaseNow() time.Time {
	if w.options.Store != nil {
		return lifecycle.Instant(w.pace.Now())
	}
	return w.pace.Now()
}

// Elapsed is the virtual time since the start. It is safe for concurrent use.
func (w *World) Elapsed() time.Duration { return w.pace.Now().Sub(w.start) }

// Steps counts the events so far.
func (w *World) Steps() int { return w.steps }

// Hash is the hash of the history so far.
func (w *World) Hash() uint64 { return w.hash }

// Model is the database behind the faults: for oracles, and for callers that
// no fault hits.
func (w *World) Model() *memory.Store { return w.model }

// Joined returns how many pods the database has been told of so far: each start of
// one, and each return of one that was declared dead.
func (w *World) Joined() int { return w.joined }

// Store is what the pods call, without the faults.
func (w *World) Store() Store { return w.store }

// Violation returns the broken promise that ended the world, or nil.
func (w *World) Violation() *Violation { return w.violation }

// Fail ends the world because of a broken promise.
func (w *World) Fail(promise, format string, args ...any) {
	w.fail(&Violation{Promise: promise, Text: fmt.Sprintf(format, args...)})
}

func (w *World) fail(v *Violation) {
	if w.violation == nil {
		w.violation = v
		w.note("violation", v.Promise, v.Text)
	}
}

// Heal ends all faults: those that last are over, and no new ones happen.
func (w *World) Heal() {
	w.note("heal", "", "")
	w.faults.off = true
	w.database.downUntil, w.bus.silent = time.Time{}, time.Time{}
	w.Release()
	for _, p := range w.pods {
		p.heal()
	}
}

// Healed reports whether Heal was called.
func (w *World) Healed() bool { return w.faults.off }

// second visits what happens once a second at most.
func (w *World) second() {
	if !w.Healed() && !w.frozen {
		w.bus.second()
		w.After(time.Second, w.second)
	}
}

// Close ends what the world has begun. It steps no more.
func (w *World) Close() {
	for _, p := range w.pods {
		p.drop()
	}
}
