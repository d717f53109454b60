// Package memory is the model of persistence.Store: the simplest correct code,
// and the store of simulations and examples.
//
// Everything is behind one mutex, so every method is one transaction. What a
// fact does to a run is decided by lifecycle.Decide with all of its tasks at
// hand; this package only keeps rows. It is deterministic: the same calls at
// the same instants give the same answers.
//
// What it does not model: locks that make calls wait (a key held by an open
// transaction is KeyBusy for TriggerInTx too; Block stands for locks that are
// held for long), lost connections and crashes. Runs go only by DropHistory; until then its
// memory grows with their number.
package memory

import (
	"sync"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// DefaultQueue is the queue of runs and steps that name none.
const DefaultQueue = "default"

// Options are the tunables of a store.
type Options struct {
	// Now is the database's clock. It must not go backwards. Instants are
	// kept to the microsecond, as PostgreSQL does.
	Now func() time.Time
	// Refuse returns an error for a payload that the store is to refuse as a
	// database would (a bad row); nil: none is.
	Refuse func(payload []byte) error
	// TenantsMax bounds the number of tenants; 0: lifecycle.GroupMax.
	TenantsMax int32
	// DeadReasons are the failures that become dead letters; none: all.
	DeadReasons []lifecycle.DeadReason
}

// Store keeps everything in memory. It is safe for concurrent use.
type Store struct {
	options Options

	mu          sync.Mutex
	definitions map[workflow.Hash]*definition
	handlers    map[persistence.Handler]int32
	queues      map[string]*queue
	tenants     map[string]*tenant
	runs        map[workflow.RunID]*run
	order       []workflow.RunID // of runs, ascending
	keys        map[key]workflow.RunID
	keyLocks    map[key]*Tx
	intake      []submission // by number
	submissions int64        // numbers given out
	inbox       map[workflow.RunID][]entry
	timers      timers
	claims      map[claimKey]*claim
	pods        map[int64]*pod
	podCount    int64 // numbers given out
	podNames    map[int64]string
	deaths      []time.Time // of pods, those that still say something
	epoch       int64       // of the leader
	hoursFrom   time.Time   // since when ended runs are counted by the hour
	letters     map[workflow.TaskID]*letter
	leader      int64 // its pod
	watched     bool  // changed is asked for
	changed     []workflow.RunID
	blocked     map[Blocked]bool
}

var _ persistence.Store = (*Store)(nil)

// New returns an empty store.
func New(options Options) *Store {
	if options.TenantsMax == 0 {
		options.TenantsMax = lifecycle.GroupMax
	}
	s := &Store{
		options:     options,
		definitions: map[workflow.Hash]*definition{},
		handlers:    map[persistence.Handler]int32{},
		queues:      map[string]*queue{},
		tenants:     map[string]*tenant{},
		runs:        map[workflow.RunID]*run{},
		inbox:       map[workflow.RunID][]entry{},
		keys:        map[key]workflow.RunID{},
		keyLocks:    map[key]*Tx{},
		claims:      map[claimKey]*claim{},
		pods:        map[int64]*pod{},
		podNames:    map[int64]string{},
		letters:     map[workflow.TaskID]*letter{},
		blocked:     map[Blocked]bool{},
	}
	s.queue(DefaultQueue)
	return s
}

// begin locks the store and starts a transaction. The caller unlocks.
func (s *Store) begin() *batch {
	s.mu.Lock()
	now := s.options.Now()
	return &batch{s: s, clock: now, now: lifecycle.Instant(now)}
}
