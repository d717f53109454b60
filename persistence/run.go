package persistence

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// Limits on what one call may carry; larger ones are refused or split.
const (
	// TriggerBatchMax bounds the runs of one trigger batch and of one atomic
	// group: beyond it one transaction delays every wake behind it.
	TriggerBatchMax = 500
	// RecordBatchMax bounds the transitions of one record.
	RecordBatchMax = 1000
	// ClaimMax bounds the tasks of one claim.
	ClaimMax = 1000
	// InlinePayloadMax bounds the payloads, in bytes, that a grant carries: the
	// input and the outputs together. The rest is loaded when the task starts.
	InlinePayloadMax = 64 << 10
	// TextMax is the longest error text or reason kept, in bytes.
	TextMax = lifecycle.TextMax
	// PageMax bounds the rows of one page of a listing.
	PageMax = 1000
)

// Outcome is how a step ended, as its children see it.
type Outcome struct {
	Step   string
	State  lifecycle.State
	Output []byte // completed only; nil if Large
	Large  bool   // Output is not carried: load it with Runs.Payloads
	Size   int    // bytes of the output
	Index  int32  // index of the step in the run's definition
	Class  string // failed only
	Error  string // failed only
}

// EdgeResult is what a parent's completion says about one child beyond its
// ending: results of conditions, and the instant of a SleepUntil. The child is
// named, because pods that run another version of the workflow number steps
// otherwise.
type EdgeResult struct {
	Child  string
	Flags  lifecycle.Flags // FlagSkip, FlagFail
	Error  string          // FlagFail: what the condition panicked with
	WakeAt time.Time       // SleepUntil; zero: none
}

// Grant is one claimed task: the right to execute it under Epoch until the
// pod's lease ends, and all that the attempt needs.
type Grant struct {
	Task         workflow.TaskID
	Epoch        int64
	Claim        ClaimID
	Handler      int32
	Attempt      int32 // counted from 1
	Lost         int32 // attempts whose lease was lost
	Suspect      bool  // a pod executes one of these at a time
	Workflow     string
	Step         string // name of the task
	Declared     string // of a dynamic task: the step whose function it executes; "": Step
	Tenant       string
	Labels       map[string]string
	TraceContext string
	Input        []byte    // nil if LargeInput
	LargeInput   bool      // Input is not carried: load it with Runs.Payloads
	InputSize    int       // bytes of the input
	Parents      []Outcome // in the order of the function's parameters
	Failed       []Outcome // OnFailure only
	LastProgress []byte
	Item         []byte         // of an element of a map, or the input of what a machine has started
	Machine      *MachineGrant  // of a machine
	Kept         bool           // an earlier run has completed the step: LastProgress is its output, and the function is not called
	KeyRun       workflow.RunID // whose idempotency keys its tasks have: of a run that continues another, the first; zero: its own
	BegunAt      time.Time      // when the run began: with its trigger, at its At, or when a pod took it from the transaction that stored it
	QueuedAt     time.Time      // when the task became ready
	StartedAt    time.Time      // database time of the claim
	Canceling    bool           // the run was asked to stop
	Options      string         // that hold for the run in place of what its program says: a RunOptions, encoded; "": none
}

// Carry leaves out of a grant what it does not carry. The input is carried unless it
// is larger than InlinePayloadMax. An output of a parent is carried unless it is larger
// than that, or larger together with the smaller payloads before it.
func (g *Grant) Carry() {
	carried := 0
	if g.InputSize <= InlinePayloadMax {
		carried = g.InputSize
	} else {
		g.Input, g.LargeInput = nil, true
	}
	for i := range g.Parents {
		o := &g.Parents[i]
		if o.Output == nil { // there is none, or it is not carried
			continue
		}
		if o.Size <= InlinePayloadMax {
			carried += o.Size
		}
		if o.Size > InlinePayloadMax || carried > InlinePayloadMax {
			o.Output, o.Large = nil, true
		}
	}
}

// ClaimID names one call that may grant tasks. The caller makes it and uses
// the same one when it asks again after an unknown outcome.
type ClaimID [16]byte

// Ready says that tasks became claimable in a queue.
type Ready struct {
	Queue string
	Count int
}

// Ends counts runs of one workflow that reached one terminal state.
type Ends struct {
	Workflow string
	State    lifecycle.State
	Count    int
}

// Wake is what a committed transaction changed that others may wait for. It
// is a hint: every part of it can also be found in the tables.
type Wake struct {
	Ready     []Ready          // ascending by queue
	NextTimer time.Time        // earliest timer written; zero: none
	Ended     []workflow.RunID // runs that reached a terminal state, ascending
	Ends      []Ends           // the same, counted, ascending by workflow and state
	Canceling []workflow.RunID // runs asked to stop that have running tasks, and machines that have canceled such
	Submitted bool             // rows were added to the intake table
	Failed    []FailedTask     // tasks that failed for good, for the log; in no order
}

// FailedTask is a task that failed for good, as its log record tells it.
type FailedTask struct {
	Task     workflow.TaskID
	Workflow string
	Step     string
	Tenant   string
	Attempt  int32 // attempts used up by errors
	Lost     int32 // attempts lost with their pods
	Class    string
	Error    string
}

// CountEnds counts runs that reached a terminal state.
func (w *Wake) CountEnds(workflow string, state lifecycle.State, count int) {
	at, found := slices.BinarySearchFunc(w.Ends, Ends{Workflow: workflow, State: state}, func(a, b Ends) int {
		return cmp.Or(strings.Compare(a.Workflow, b.Workflow), cmp.Compare(a.State, b.State))
	})
	if !found {
		w.Ends = slices.Insert(w.Ends, at, Ends{Workflow: workflow, State: state})
	}
	w.Ends[at].Count += count
}
