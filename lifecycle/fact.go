package lifecycle

import "time"

// Fact is something that happened to a run or to one of its tasks and that may
// move it. The set is closed.
//
//sumtype:decl
type Fact interface{ isFact() }

// RunStarted lets the tasks without parents begin: the trigger was stored, or
// its At timer fired.
type RunStarted struct{}

// TaskReported is what a pod says about a task that it holds, or what is said
// about it in its place (a lost lease).
type TaskReported struct {
	Step     int32
	Epoch    int64 // under which the pod holds the task
	Pod      int64
	Kind     ReportKind
	Edges    []EdgeFlag    // Succeeded: what conditions say about children
	Class    string        // Errored
	Error    string        // Errored
	TimedOut string        // Errored: which timeout, or ""
	Retry    bool          // Errored: another attempt is allowed
	RetryIn  time.Duration // Errored, Retry: the delay before it
	Make     []Task        // Succeeded: dynamic tasks to make, as NewDynamic returns them: the task is their owner
	MaxLost  int32         // Lost: losses after which the task fails
	Deaths   Deaths        // Lost: those of pods, its own among them; none: it did not die

	// Exhausted says of an Errored one that is not retried: another attempt
	// might have helped, but those allowed are used up.
	Exhausted bool

	Child string // Yielded by a step with a child run: the id of that, for the event
	Map   *Map   // Yielded by a map: how it begins, with Window, Allowed, Items, Left and Next

	Activation *Activation // Yielded by a machine
}

// Deaths counts the pods that have died, as far as that says something about the
// tasks that they had.
type Deaths struct {
	Lately int32 // within some minutes
	Kept   int32 // those and others, within a day
}

// EdgeFlag is the result of conditions, or the instant of a SleepUntil, for
// one child of the task that completed.
type EdgeFlag struct {
	Child  int32
	Flags  Flags
	Error  string    // FlagFail: what the condition panicked with
	WakeAt time.Time // SleepUntil; zero: none
}

// ReportKind says how an attempt ended.
type ReportKind uint8

// The kinds of reports.
const (
	_         ReportKind = iota
	Succeeded            // the step function returned a result
	Errored              // it returned an error, panicked or timed out
	Lost                 // its pod is gone, or no pod executes it: one loss
	Released             // its pod stops and hands it back, uncharged
	Yielded              // it waits for a child run, its elements or entries, which begin with this report
)

// ClassBadRow is the class of an attempt that failed because the database
// refused what it reported.
const ClassBadRow = "bad_row"

// SignalArrived says that a signal was sent to the run. It is delivered: the first step that
// waits for it takes it, or it stays in the inbox of the run.
type SignalArrived struct {
	Name  string
	Steps []int32 // of the graph, that wait for signals of this name, ascending
}

// ChildEnded says that the child run of a step has ended, or is gone.
type ChildEnded struct {
	Step   int32
	Run    string // its id
	State  State  // Completed, Skipped (completed without an output), Failed or Canceled; 0: the run is gone
	Failed string // the step that failed
	Class  string // of its error
	Error  string // or why it was canceled
}

// TimerFired says that a durable timer is due.
type TimerFired struct {
	Step  int32 // RunStep for timers of the run
	Timer TimerKind
	Epoch int64 // of the task when the timer was set

	// Parked says of a QueueTimer's task: no living pod registers its step.
	Parked bool
}

// RunStep is the step number of facts, timers and events of the run itself.
const RunStep int32 = -1

// TimerKind says what a durable timer is for. The codes are stored.
type TimerKind uint8

// The kinds of timers.
const (
	SleepTimer       TimerKind = 1 // a Sleep step ends
	BackoffTimer     TimerKind = 2 // the next attempt may begin
	StartTimer       TimerKind = 3 // a run triggered with At begins
	QueueTimer       TimerKind = 4 // the longest wait in the queue is over
	CancelGraceTimer TimerKind = 5 // running tasks of a canceled run are fenced
	StopTimer        TimerKind = 6 // a task that was asked to stop while it ran is fenced
	DeadlineTimer    TimerKind = 7 // the longest wait for a signal is over
)

// TimerKindMax is the highest kind of timer that a store keeps. Kinds between those above and
// this one are of later versions.
const TimerKindMax = 15

// Known reports whether this version knows what a timer is for. A leader passes over timers
// that it does not know: they fire under a leader of a later version.
func (k TimerKind) Known() bool { return k >= SleepTimer && k <= DeadlineTimer }

// CancelRequested asks the run to stop.
type CancelRequested struct {
	Reason string
	By     string
	Grace  time.Duration // how long running tasks may go on
}

func (RunStarted) isFact()      {}
func (TaskReported) isFact()    {}
func (SignalArrived) isFact()   {}
func (ChildEnded) isFact()      {}
func (TimerFired) isFact()      {}
func (CancelRequested) isFact() {}

// Answer is what became of a fact.
type Answer uint8

// The answers.
const (
	_            Answer = iota
	Moved               // recorded now
	AlreadyYours        // the same report was recorded before
	Stale               // the fact is about an attempt or a state that is over
	Illegal             // the fact cannot happen in that state: a bug of the sender
	Busy                // the run is locked for too long; nothing written, send again
	BadRow              // the database refused a value; the attempt failed with it
)
