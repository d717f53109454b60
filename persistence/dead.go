package persistence

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

const (
	// PurgeMax bounds the dead letters that one call removes.
	PurgeMax = 5000
	// HistoryMax bounds the events that a dead letter keeps: the last ones.
	HistoryMax = 100
)

// DeadLetter is a task that failed for good. It is stored in the transaction
// in which the task fails, and known by its task, which fails so only once. It
// outlives its run.
type DeadLetter struct {
	Task       workflow.TaskID
	Definition workflow.Hash
	Workflow   string
	Step       string
	Handler    workflow.Hash // fingerprint of the step; zero: its definition was removed
	Queue      string        // that the step waited in
	Tenant     string
	Reason     lifecycle.DeadReason
	Class      string
	Error      string
	Attempts   int32     // used up by errors
	Lost       int32     // lost with their pods
	Handled    bool      // the failure did not fail the run by itself: what comes after it handles it, or its machine hears of it
	CreatedAt  time.Time // when the run was created
	StartedAt  time.Time // when the last attempt began; zero: none did
	DiedAt     time.Time
	Requeues   int32
	RequeuedAt time.Time      // the last time; zero: never
	RequeuedAs workflow.RunID // the run of the last requeue; zero: none
}

// DeadDetail is a dead letter with all that is known of it.
type DeadDetail struct {
	DeadLetter

	RunKept bool              // its run still exists, hot or in history
	Input   []byte            // of the run
	Parents []Outcome         // of the step, as its function saw them; none once the run is gone
	Events  []lifecycle.Event // of the task, oldest first, the last HistoryMax
}

// Requeued selects dead letters by whether they were requeued.
type Requeued uint8

// Which dead letters are selected.
const (
	RequeuedOrNot Requeued = iota
	NotRequeued
	RequeuedOnce // at least
)

// DeadFilter selects dead letters, those of the oldest runs first unless it says
// otherwise. Zero fields select all.
type DeadFilter struct {
	Tenant      string // "": every tenant; only for operators
	Workflow    string
	Step        string
	Queue       string // that the step waited in
	Handler     string // how the fingerprint of the step begins, in hexadecimal
	Reasons     []lifecycle.DeadReason
	OlderThan   time.Duration // died at least so long ago, by the database's clock
	YoungerThan time.Duration // died less than so long ago
	By          time.Time     // OlderThan: the database's clock shows no more, whatever it says; zero: it is believed
	Requeued    Requeued
	Newest      bool            // those of the newest runs first; not for counting and purging
	After       workflow.TaskID // keyset: those behind this one; not for counting
	Limit       int             // at most PageMax; 0: 100; not for counting
}

// Page returns how many dead letters a page has at most.
func (f *DeadFilter) Page() int {
	if f.Limit <= 0 {
		return pageDefault
	}
	return min(f.Limit, PageMax)
}

// Purge returns how many dead letters a call removes at most.
func (f *DeadFilter) Purge() int {
	if f.Limit <= 0 {
		return PurgeMax
	}
	return min(f.Limit, PurgeMax)
}

// OriginRequeue is the origin of runs that go on from a dead letter.
const OriginRequeue = "requeue"

// pageDefault bounds the rows of a page whose filter names no limit.
const pageDefault = 100

// RequeueOrder asks for the run of a dead letter to go on, as a new run: what
// completed is taken over (lifecycle.Resume), the rest is executed. A machine continues from its
// state (lifecycle.ResumeMachine).
type RequeueOrder struct {
	Letter workflow.TaskID
	Tenant string         // "": any
	Run    workflow.RunID // of the new run, made by the caller; asking again with the same id is safe
	Again  bool           // also if the letter was requeued before

	At     time.Time         // of the start; zero or in the past: now
	Queue  string            // "": that of the run
	Labels map[string]string // nil: those of the run

	TraceContext string // "": that of the run

	// Fresh takes nothing over: every step is executed. Only then may the
	// definition, which is one of the same workflow, and the input differ.
	Fresh      bool
	Definition workflow.Hash // zero: that of the run
	Input      []byte        // nil: that of the run

	// Judged says that Edges are what conditions on the input say; otherwise
	// they say what they said of the run. A run that starts afresh on a definition that none
	// of whose conditions look at the input needs no judge; on any other, an input
	// that was not judged is refused.
	Judged bool
	Edges  []EdgeResult

	// Options are a RunOptions as its Encode returns it: they hold for the new run, and for no run
	// that continues that. "": what the program says holds.
	Options string
}

// RequeueResult says what became of a requeue.
type RequeueResult uint8

// The results of a requeue.
const (
	_                RequeueResult = iota
	RequeueStored                  // the new run is stored: Answer.Run
	RequeuedBefore                 // nothing stored; Answer.Run is the run of the last requeue
	RunGoesOn                      // nothing stored: the run of the letter has not ended yet
	RunGone                        // nothing stored: the run is no longer kept, and so is nothing to go on from
	RequeueRefused                 // nothing stored: Answer.Trigger says why
	InputUnjudged                  // nothing stored: conditions look at the input, or may, and the new one was not judged
	LetterLeftBehind               // nothing stored: the machine of the run has handled the failure, or has completed without that (lifecycle.LeftBehind)
)

// RequeueAnswer answers a requeue.
type RequeueAnswer struct {
	Result  RequeueResult
	Run     workflow.RunID
	Kept    int           // steps taken over; of a machine: what has completed and its state does not know of yet
	Letters int           // dead letters of the run that count as requeued now
	Trigger TriggerResult // RequeueRefused
	Err     error         // RequeueRefused: what the database said, if it did
	Wake    Wake
}

// DeadLetters are the tasks that failed for good. Only reasons that the store
// was told to count become letters.
type DeadLetters interface {
	// ListDeadLetters returns a page, by run and step, or the other way round.
	ListDeadLetters(ctx context.Context, filter DeadFilter) ([]DeadLetter, error)
	// CountDeadLetters returns how many there are.
	CountDeadLetters(ctx context.Context, filter DeadFilter) (int, error)
	// DeadLetter returns one of a tenant ("": any) with its details, or
	// ErrDeadLetterNotFound.
	DeadLetter(ctx context.Context, tenant string, task workflow.TaskID) (DeadDetail, error)
	// RequeueDeadLetter stores a new run that continues where the run of a letter
	// stopped, for DrainIntake to start. All letters of that run count as
	// requeued: the new run gives each of them another chance. The ended run
	// stays as it is. ErrDeadLetterNotFound as above.
	RequeueDeadLetter(ctx context.Context, order RequeueOrder) (RequeueAnswer, error)
	// PurgeDeadLetters removes at most Limit letters (0, and at most: PurgeMax)
	// and returns how many.
	PurgeDeadLetters(ctx context.Context, filter DeadFilter) (int, error)
}

// EdgesOnInput returns what conditions on the input said of an ended run, for
// one that continues from it: tasks are those of the ended run, of graph, in the
// order of their steps, and kept are taken over. A machine has none.
func EdgesOnInput(graph *workflow.Graph, tasks []lifecycle.Task, kept []int32) []EdgeResult {
	var edges []EdgeResult
	if graph.IsMachine() {
		return nil
	}
	for i := range graph.Nodes {
		t := &tasks[i]
		e := EdgeResult{Child: graph.Nodes[i].Name, Flags: lifecycle.SaidByInput(t.Flags)}
		if e.Flags.Has(lifecycle.FlagFail) {
			e.Error = t.Error
		}
		if _, taken := slices.BinarySearch(kept, int32(i)); !taken {
			e.WakeAt = t.WakeAt
		}
		if e.Flags != 0 || !e.WakeAt.IsZero() {
			edges = append(edges, e)
		}
	}
	return edges
}
