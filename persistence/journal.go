package persistence

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// ClassBadRow is the class of an attempt that failed because the database
// refused what it reported.
const ClassBadRow = lifecycle.ClassBadRow

// Transition is the report of a pod on one task that it holds.
type Transition struct {
	Task       workflow.TaskID
	Epoch      int64 // under which the task was granted
	Report     lifecycle.ReportKind
	Output     []byte        // Succeeded
	Edges      []EdgeResult  // Succeeded
	Child      *Child        // Yielded: the run that begins, for which the task waits
	Map        *Map          // Yielded by a map: its elements
	Activation *Activation   // Yielded by a machine, or Succeeded by one that has completed
	Make       []DynamicTask // Succeeded: tasks that the run has to execute from now on, too
	Class      string        // Errored: to sort failures by
	Error      string        // Errored
	TimedOut   string        // Errored: which timeout, or ""
	Retry      bool          // Errored: another attempt is allowed
	RetryIn    time.Duration // Errored, Retry: the delay before it
	Progress   []byte        // last progress, kept for the next attempt; may be nil

	// Exhausted says of an Errored one that is not retried: another attempt
	// might have helped, but those allowed are used up.
	Exhausted bool
}

// Frees reports whether the report of a task leaves its slot to what becomes ready with it.
func (t *Transition) Frees() bool {
	return t.Report == lifecycle.Succeeded || t.Report == lifecycle.Yielded
}

// Record asks for a batch of transitions of its Pod.
//
// What becomes ready with it may be granted to the pod at once: at most Limit tasks, of which
// Spare may be more than the tasks whose slots it leaves (Transition.Frees), and only while no
// other tenant waits in that queue (lifecycle.MayInline): it takes no place there. A task that
// the record hands back, or that is tried again, is not granted with it.
type Record struct {
	GrantRequest

	Spare       int
	Transitions []Transition
	MaxLost     int // losses after which a task fails as a poison pill
	CancelGrace time.Duration
	// Task is what RecordInTx executes. Without it the quarantine is not asked
	// about its run.
	Task workflow.TaskID
	// TxLimit is how long the transaction of RecordInTx may be idle: as long as
	// its attempt may take. The one of a pod that froze ends then, and with it the
	// locks that the next attempt waits for. 0: as the server says.
	TxLimit time.Duration
}

// RecordAnswer is what became of one transition.
type RecordAnswer struct {
	Result lifecycle.Answer
	Err    error // BadRow: what the database said; the attempt was recorded as failed with it
}

// Recorded answers a record.
type Recorded struct {
	Now     time.Time
	Answers []RecordAnswer // in the order of the transitions
	Refused error          // why some were answered Busy, if the database refuses what all of them need
	Grants  []Grant        // children granted inline
	Wake    Wake
}

// Refusal is what the database refused of a record that it answered otherwise.
func (r Recorded) Refusal() error { return r.Refused }

// Journal stores what pods report.
type Journal interface {
	// RecordTransitions stores a batch of at most RecordBatchMax transitions:
	// outputs, events, decrements of children, the cascade to any depth, queue
	// rows, timers and the end of runs, in one transaction. Each transition is
	// fenced by pod and epoch and answered on its own; one that was recorded
	// before answers AlreadyYours. A value that the database refuses fails its
	// own attempt (class "bad_row") and nothing else. Runs whose lock is held
	// too long answer Busy and nothing of theirs is written. A pod that is
	// dead or expired gets ErrPodDead.
	RecordTransitions(ctx context.Context, record Record) (Recorded, error)

	// RecordInTx calls fn with an open transaction of the adapter's own type,
	// then records the transition that fn returns in that transaction and
	// commits. If fn returns an error nothing of the transaction is kept and
	// the error is returned. Unless the answer is Moved, nothing of the
	// transaction is kept either: a fenced attempt leaves no trace. A
	// serialization failure or a deadlock calls fn again, at most three times
	// in all. Where the run of the task is locked or in
	// quarantine, fn is not called, or not again, and the answer is Busy.
	RecordInTx(ctx context.Context, record Record, fn func(ctx context.Context, tx any) (Transition, error)) (Recorded, error)

	// CancelRun asks a run of a tenant to stop. It is idempotent; Result is
	// Stale if the run had ended before.
	CancelRun(ctx context.Context, cancel Cancel) (Canceled, error)
}

// Cancel asks a run to stop.
type Cancel struct {
	Run    workflow.RunID
	Tenant string
	Reason string
	By     string // e.g. "api"
	Grace  time.Duration
}

// Canceled answers a cancel.
type Canceled struct {
	Now    time.Time
	Result lifecycle.Answer
	State  lifecycle.State // of the run, afterwards
	Wake   Wake
}
