package workflow

import "time"

// Input is the parent index that stands for the run's input in a [Condition].
const Input = -1

// Definition is one workflow as declared: its steps and how they depend on
// each other. A step is known by its index in Steps. A Definition is a value
// that does not change after it was validated.
type Definition struct {
	Name      string        // what callers trigger
	InputType string        // declared Go type of the input, part of every fingerprint
	Steps     []Step        // in order of declaration; parents come first
	Output    int           // index of the step whose output is the run's
	Policy    FailurePolicy // what the first unhandled failure does to the rest
	Retention RetentionClass
	OnFailure *Step // runs once everything else of a failed run has ended; nil for none
}

// FailurePolicy says what the first unhandled failure does to the other tasks
// of its run.
type FailurePolicy uint8

// The failure policies.
const (
	_              FailurePolicy = iota
	FailFast                     // tasks that have not started are canceled
	FinishSiblings               // only the descendants of the failed task are affected
)

// StepKind says what carries a step out.
type StepKind uint8

// The kinds of steps.
const (
	_          StepKind = iota
	Func                // a step function, executed by a pod
	Sleep               // a durable timer of a fixed duration
	SleepUntil          // a durable timer whose instant a parent's output gives
	Wait                // for a signal of the run, whose payload is its output
	ChildRun            // another run, whose output is its output
	Map                 // a function for each element of a list that its only parent gives
	Machine             // a state machine: it handles what happens to its run, and starts what it declares
)

// Step is one node of a definition.
type Step struct {
	Name            string
	Kind            StepKind
	Parents         []Edge        // the parameters of the step function, in order
	After           []Edge        // order only
	Conditions      []Condition   // all must allow the step
	RunIfAllSkipped bool          // run even when every parent was skipped
	Type            string        // declared Go types of parameters and result
	Sleep           time.Duration // Sleep: how long; Wait: the longest wait, 0: for ever; Machine: how long it may go on after a cancel, 0: a cancel ends it
	Signal          string        // Wait: the name of the signal
	SkipLate        bool          // Wait: after the longest wait the step is skipped; otherwise it fails
	Child           ChildSpec     // ChildRun: the run; the step's only parent gives its input
	WakeFrom        int           // SleepUntil: the step whose output gives the instant
	Version         int32         // Machine: of its state, counted from 1
	Spawned         bool          // only activations of the machine of the workflow make tasks of the step
	Options         Options
}

// ChildSpec is the run that a step of kind [ChildRun] begins and waits for.
type ChildSpec struct {
	Workflow string
	Abandons bool // the run continues when the step is canceled; otherwise it is asked to stop
	Output   OutputOf
}

// OutputOf says as what the output of a run was encoded: as that of a step, or as a signal that
// a step waited for. It is of another workflow if that step was a child run itself.
type OutputOf struct {
	Workflow string
	Step     string // or the name of the signal
	Signal   bool
}

// OutputOf returns as what the output of a step of a workflow is encoded.
func (s *Step) OutputOf(workflow string) OutputOf {
	return outputOf(workflow, s.Kind, s.Name, s.Signal, &s.Child)
}

// OutputOf returns as what the output of a node of a workflow is encoded.
func (n *Node) OutputOf(workflow string) OutputOf {
	return outputOf(workflow, n.Kind, n.Name, n.Signal, &n.Child)
}

func outputOf(workflow string, kind StepKind, name, signal string, child *ChildSpec) OutputOf {
	switch kind {
	case ChildRun:
		return child.Output
	case Wait:
		return OutputOf{Workflow: workflow, Step: signal, Signal: true}
	case Func, Sleep, SleepUntil, Map, Machine:
	}
	return OutputOf{Workflow: workflow, Step: name}
}

// Options are the tunables of a step. They are not part of its fingerprint.
type Options struct {
	Queue           string        // "" is the queue of the run
	Retry           RetryPolicy   // zero: one attempt
	AttemptTimeout  time.Duration // 0: the engine's default
	HeartbeatLimit  time.Duration // 0: none; else the longest silence between heartbeats
	ScheduleToStart time.Duration // 0: none; else the longest wait in the queue
	InTx            bool          // completes in the transaction of the step function
}

// Edge is how a step depends on a parent.
type Edge struct {
	Parent int
	Kind   EdgeKind
}

// EdgeKind says which endings of a parent an edge accepts.
type EdgeKind uint8

// The kinds of edges.
const (
	_       EdgeKind = iota
	Plain            // the parent completed
	Maybe            // the parent completed or was skipped
	Settled          // the parent ended, however
)

// Condition makes a step depend on the output of Ref. The functions
// themselves stay in the embedder's code; the definition keeps their shape.
type Condition struct {
	Kind     ConditionKind
	Ref      int    // a step, or Input
	Decision int    // which If, Switch or SkipIf of the workflow, counted from 0
	Case     string // Case only: the value that selects this branch
}

// ConditionKind says which result of a decision allows the step.
type ConditionKind uint8

// The kinds of conditions.
const (
	_         ConditionKind = iota
	Then                    // If: the predicate holds
	Otherwise               // If: it does not
	Case                    // Switch: the selector returned Case
	Default                 // Switch: no declared case matched
	SkipIf                  // the predicate does not hold
)

// RetryPolicy says how often a step is tried and how long to wait in between.
// The zero value means one attempt.
type RetryPolicy struct {
	Attempts int           // at most this many attempts; 0 and 1: no retry
	First    time.Duration // wait before the second attempt; 0: 1 s
	Factor   float64       // growth of the wait; 0: 2
	Cap      time.Duration // longest wait; 0: 60 s, or First if that is longer
	Jitter   float64       // fraction, applied after the cap; 0: 0.1, negative: none
	Never    []string      // classes of errors after which there is no other attempt
}
