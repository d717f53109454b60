package lifecycle

import (
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// Run is what decisions need to know of a run.
type Run struct {
	State       State
	Policy      workflow.FailurePolicy
	Steps       int32 // of the graph ([workflow.Graph.Steps]); the failure handler's task gets this number, and dynamic tasks those after it
	Dynamic     int32 // dynamic tasks made so far, without the failure handler
	Remaining   int32 // open obligations: unfinished tasks without children
	Events      int64 // number of events of the run itself so far
	Signals     int64 // number of signals delivered so far; of a machine: of the entries of its inbox
	HasHandler  bool  // an OnFailure step is declared
	HandlerMade bool  // its task exists
	Slow        bool  // something happened that the fast path does not know: see TakesFastPath
	Canceling   bool  // asked to stop
	Failing     bool  // FailFast took effect
	Unhandled   bool  // an unhandled failure happened
	Cut         bool  // the cancel took effect on some task
	Depth       int16 // above it are so many runs, each a child of the next; 0: it is no child
}

// Task is what decisions need to know of a task.
type Task struct {
	Step         int32
	State        State
	Traits       workflow.Traits
	Flags        Flags
	Pending      int32 // parents that have not ended
	Parents      int32 // parents in all
	Children     []workflow.Child
	Epoch        int64         // grows by one at every transition
	Attempt      int32         // attempts used up by errors
	Lost         int32         // attempts lost with their lease
	Pod          int64         // that holds it, or held it last
	Sleep        time.Duration // of a sleep; of a wait for a signal: the longest, 0: for ever; of a machine: how long it may go on after a cancel
	Signal       string        // that it waits for
	WakeAt       time.Time     // SleepUntil: given by a parent, or by the machine that has started it; of a machine: when it was asked to stop
	Entry        int64         // of what a machine has started: the number under which it hears of the end, negative: it does not; of a machine: of the cancel
	StartTimeout time.Duration
	Error        string // why its condition panicked (FlagFail), or its last failure
	Class        string
	Dynamic      *Dynamic // nil: it is of the graph, or the failure handler's; never changed
}

// Decision is what a fact changes. The caller writes all of it in the
// transaction in which it loaded the rows, or nothing.
type Decision struct {
	// Missing lists steps whose rows are needed to decide; MissingAll asks for
	// every task of the run that is not terminal. If either is set, the rest is
	// to be ignored: load them and decide again.
	Missing    []int32
	MissingAll bool
	// MissingInbox asks in the same way for the inbox of the run.
	MissingInbox bool
	// MissingMaps asks in the same way how far the maps of steps have come.
	MissingMaps []int32

	Answers    []Answer // one per fact, in order
	Run        Run      // afterwards
	RunChanged bool
	Tasks      []Task    // rows that changed, afterwards, by step
	Created    []Task    // rows to insert: dynamic tasks, the failure handler's among them, in the order in which they were made
	Enqueued   []Enqueue // in the order in which they became ready
	Timers     []Timer   // at most one per step
	DropTimers []int32   // steps whose timers are deleted before Timers are set, ascending, RunStep among them
	Events     []Event   // per step in the order of N
	Dead       []Death   // tasks that failed for good, in the order in which they did
	Arrived    []Entry   // of signals that were delivered, in the order of the facts
	Taken      []Taken   // which of these, or of the inbox, steps have taken
	Begun      []int32   // steps whose child runs begin, in the order of the facts
	Given      []int32   // steps that have got the output of their child runs, in the order of the facts
	Stopped    []int32   // steps whose child runs are asked to stop
	Activated  bool      // an activation among the facts was applied: the state that it left counts, and what it starts is among Created, in order
	Maps       []Map     // that begin with the decision, or of which it changed how far they have come, by step
	Stops      bool      // tasks that run are to stop, and their pods to be told, other than for a CancelRequested
	Ended      bool      // the run reached a terminal state
}

// Enqueue puts a task into the ready queue.
type Enqueue struct {
	Step    int32
	Lane    Lane
	Suspect bool // it was lost too often: it runs beside no other such task on a pod
}

// Timer is a durable timer to set.
type Timer struct {
	Step  int32
	Kind  TimerKind
	At    time.Time
	Epoch int64
}
