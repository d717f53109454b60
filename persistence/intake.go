package persistence

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// Trigger asks for one run.
type Trigger struct {
	Run          workflow.RunID // made by the caller of the port; asking again with the same id is safe
	Group        int            // triggers of one batch with the same non-zero group are stored all or none
	Definition   workflow.Hash
	Workflow     string
	Tenant       string
	Key          string   // idempotency key; "": none
	InputHash    [32]byte // compared when the key exists
	Input        []byte
	At           time.Time // zero or in the past: now
	Queue        string    // "": the default queue
	Labels       map[string]string
	TraceContext string
	Origin       string       // e.g. "api", "tx", "message"
	Edges        []EdgeResult // conditions on the input
	Signal       *Signal      // that the run gets with its trigger, or with an existing run; it has a Key. Nil: none
}

// RunKey is an idempotency key in its scope.
type RunKey struct{ Tenant, Workflow, Key string }

// TriggerResult says what became of one trigger.
type TriggerResult uint8

// The results of a trigger.
const (
	_               TriggerResult = iota
	Triggered                     // a new run is stored
	Existing                      // the key names a run with the same input: Answer.Run
	KeyConflict                   // the key names a run with another input; nothing stored
	KeyBusy                       // another transaction holds the key, what gives the tenant its places, or the id of the signal; nothing stored, ask again
	GroupRefused                  // another trigger of the same group was refused; nothing stored
	UnknownWorkflow               // no such definition is registered
	UnknownQueue                  // no pod ever registered this queue
	TriggerBadRow                 // the database refuses a value: Answer.Err
	TenantsFull                   // no group number is left for a new tenant
)

// TriggerAnswer answers one trigger.
type TriggerAnswer struct {
	Result TriggerResult
	Run    workflow.RunID // Triggered, Existing, KeyConflict
	Err    error          // TriggerBadRow, TenantsFull
	Signal SignalResult   // of Trigger.Signal: what became of it, if the run is stored
	Names  []string       // SignalUnknown: those that steps of the run wait for
}

// Triggers answers a batch.
type Triggers struct {
	Now     time.Time
	Answers []TriggerAnswer // in the order of the batch
	Grants  []Grant         // first tasks that were granted at once
	Wake    Wake
}

// Intake stores new runs.
type Intake interface {
	// TriggerRuns stores a batch of at most TriggerBatchMax triggers in one
	// transaction: keys first, then runs, tasks, timers and queue rows. A
	// trigger whose run id exists already answers Triggered again. It never
	// waits for a key that another transaction holds (KeyBusy). A value that
	// the database refuses fails its own trigger (or group) only.
	//
	// The first tasks of the batch are granted to the pod of take, up to its
	// limit in the order in which they would queue up (lifecycle.Take): if it
	// lives, registers all their handlers and serves all their queues, no task waits
	// in these, and nothing about the batch takes a decision: every run is new, of a
	// tenant that has triggered before, without key, instant or condition, and its
	// first steps are functions that may wait for ever. Whatever keeps them from
	// being granted does not keep the runs from being stored. The same batch again
	// under the same claim id returns the same grants, as far as they are still held.
	TriggerRuns(ctx context.Context, batch []Trigger, take GrantRequest) (Triggers, error)

	// TriggerInTx stores one trigger in the caller's transaction (of the
	// adapter's own type) without taking any lock that others wait for, except
	// the one on its key. The run is Pending until DrainIntake has started it.
	// A new tenant gets its number only then: one that gets none because others
	// were faster waits for a place. A transaction that cannot take a run of this
	// store is ErrTxRefused.
	TriggerInTx(ctx context.Context, tx any, trigger Trigger) (TriggerAnswer, error)

	// DrainIntake starts at most limit runs that TriggerInTx stored, oldest
	// first, skipping those another pod is draining, and delivers the signals of as many
	// runs (see Inbox). In the same way it tells runs that their child runs have ended, and
	// child runs that the step which began them was canceled (see Child). More reports whether there may be further ones. Runs whose
	// workflows a living pod of an older protocol does not know wait until it has left.
	DrainIntake(ctx context.Context, limit int) (Drained, error)

	// RunByKey returns the run that the idempotency key of a committed trigger
	// names, or ErrRunNotFound.
	RunByKey(ctx context.Context, key RunKey) (workflow.RunID, error)
}

// Drained is what DrainIntake did.
type Drained struct {
	Now   time.Time
	Count int // runs that were started
	More  bool
	Wake  Wake

	Requests  int // to deliver signals, or to tell runs of child runs and parents: those that were carried out, in full or in part
	Delivered int // signals
	Dropped   int // signals of runs that ended before they were delivered, or are gone

	// Again is after how long to call again for submissions that were left out because
	// their runs or tenants are locked or in quarantine; 0: none was left out.
	Again time.Duration
}
