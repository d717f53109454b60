package explain

import (
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// Limits on how much a store looks at for one situation.
const (
	// LineMax bounds how many rows of a queue are counted.
	LineMax = 20_000
	// StartsMax bounds how many of the youngest tasks are looked at for when a
	// handler was last seen.
	StartsMax = 20_000
	// FailedMax bounds the failed steps of a run that has ended.
	FailedMax = 20
)

// Situation is a run and what may keep it from moving.
type Situation struct {
	Now          time.Time // the database's
	Run          workflow.RunID
	State        lifecycle.State
	Parent       workflow.RunID // whose child run it is; zero: of none
	Canceling    bool
	CancelReason string
	Undefined    bool      // the definition of its workflow is not there
	Submitted    bool      // stored by TriggerTx, or held back by older pods; its tasks do not exist yet
	Protocol     int16     // the lowest of pods that know its workflow; 0: all do
	StartsAt     time.Time // zero: it has no such timer
	Fenced       time.Time // when running tasks of the canceled run are fenced; zero: it has no such timer
	Tasks        []Task    // those that have not ended, by step
	Pods         []Pod     // not declared dead or still holding tasks, by number
	Queues       []Queue   // in which tasks of the run are ready, by name
	Handlers     []Handler // of tasks that are ready, by number
	Leader       int64     // pod that leads, or did when it died; 0: none
	LeaderLock   *Lock     // of the session that leads, or keeps others from leading; nil: none, or not known
	TenantBusy   int       // running tasks of the run's tenant
	Locks        []Lock    // on the tables, or on rows of the run
	Touched      []Lock    // transactions that may hold rows of Tables, which are passed over then
	Unreadable   bool      // Locks kept the tables from being read: the rest is empty
	End          End       // zero: it has not ended

	// Settings, which the tables do not hold; the caller fills them in. Zero: not known.
	TenantLimit        int           // 0: none
	TenantLimitUnknown bool          // to the caller: pods may have another one
	Pulse              time.Duration // between two renewals
	Lease              time.Duration
}

// End is how a run ended.
type End struct {
	At           time.Time
	CanceledBy   string   // what asked for the cancel, such as "api"; "": nothing did
	CancelReason string   // that was given with it
	Failed       []Failed // steps that failed, no elements of maps, the first unhandled one first, at most FailedMax
}

// Failed is a step that failed for good.
type Failed struct {
	Name     string
	At       time.Time // zero: not known
	Attempts int32     // that ended with an error
	Lost     int32     // attempts that were lost with their pod
	Class    string
	Error    string

	RequeuedAt time.Time      // last; zero: it was not, or nothing is known of it any more
	RequeuedAs workflow.RunID // the run that continued from it then
}

// Task is a step of the run that has not ended.
type Task struct {
	Step     int32
	Name     string
	State    lifecycle.State
	Pending  int32            // parents that have not ended
	Children []workflow.Child // that wait for it, among others
	Attempt  int32            // used up by errors
	Lost     int32
	Class    string // of its last error
	Error    string
	Pod      int64
	Queue    string
	Handler  int32

	QueuedAt  time.Time // zero: never
	StartedAt time.Time // zero: never
	Timer     time.Time // ends its sleep, its backoff or its wait for a signal; zero: none
	Expires   time.Time // ends its wait in the queue; zero: none

	Signal   string    // that it waits for; "": it is no wait
	SkipLate bool      // it is skipped when Timer ends its wait; else it fails
	Since    time.Time // waiting: since when; zero: not known
	Sent     bool      // waiting: a signal of this name is stored, and not delivered
	Child    ChildRun  // waiting: for this run; zero: it waits for something else
	Map      MapState  // waiting: for its elements; zero: it waits for something else
	Element  int32     // of an element of a map: the step of that; 0: it is none, since a map has a parent
	Machine  bool      // it is a state machine; waiting: Since is when its last activation ended
	Hears    []string  // of a machine: the signals that it hears, by name
	Spawned  bool      // the machine of the run has started it

	Ready   bool // it has a row in its queue among the first LineMax
	Parked  bool // it has one aside: no living pod registered its handler
	Suspect bool // Ready: its row says that it is executed apart
	Place   int  // Ready: in the queue, from 1
	Nth     int  // Ready: in its tenant's line, from 1
}

// ChildRun is the run that a step has begun and waits for.
type ChildRun struct {
	Run      workflow.RunID
	Workflow string
	State    lifecycle.State // 0: it has ended and is in history, or its rows are gone
	Since    time.Time       // pending: when it was stored; running: when it began; else zero
}

// MapState is how far a step of kind Map has come that waits for its elements.
type MapState struct {
	Items   int32 // of its list
	Left    int32 // have no element yet
	Open    int32 // elements that have not ended
	Running int32 // of these, that pods execute
	Failed  int32 // elements that have ended without completing
}

// Queue is a queue that tasks wait in.
type Queue struct {
	Name   string
	Length int // rows, at most LineMax
}

// Handler is the code of a step, as pods register it.
type Handler struct {
	Number   int32
	LastSeen time.Time // when a pod last registered or started it, as far as is known; zero: never
}

// Pod is a pod that has not left.
type Pod struct {
	ID       int64
	Name     string
	Slots    int  // 0: it only triggers and reads
	Held     int  // tasks that it holds
	Suspects int  // of them, that are executed apart
	Stuck    int  // slots taken by functions that ignore their context, as far as is known
	Dead     bool // declared so
	Expires  time.Time
	Queues   []string
	Handlers []int32 // of those of the situation
	Protocol int16   // of the engine; 0: older than the number
}

// Lock is a lock that statements of the engine wait for, or will.
type Lock struct {
	PID      int           // of the session that holds it
	Name     string        // what that session calls itself
	Query    string        // its latest
	Age      time.Duration // of its transaction
	Idle     bool          // it does nothing meanwhile
	Silent   time.Duration // of the holder of the leader's lock: since its session was heard last
	Waiting  int           // sessions that wait for it
	Prepared string        // name of the prepared transaction that holds it, in place of a session
	Tables   []string      // of whose rows it may hold some; nil: it holds a table, or rows of the run
}
