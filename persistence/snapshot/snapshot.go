// Package snapshot is the state of a store in a form that does not depend on
// the adapter, and the invariants that hold in it between any two
// transactions.
//
// Each adapter can produce [Tables] for tests. [Check] lists what is wrong with
// them; the differential test compares the Tables of two stores.
package snapshot

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Tables is everything a store keeps about runs at one instant. After Sort two
// equal states are equal Tables.
type Tables struct {
	Runs      []Run
	Queue     []QueueRow // ready and parked
	Timers    []Timer
	Claims    []Claim // one per granted task
	Blocks    []Block
	Frontiers []Frontier
	Keys      []Key
	Intake    []workflow.RunID // submitted, not expanded yet
	Inbox     []Entry          // by run and id
	Signaled  []workflow.RunID // with signals to be delivered, each once
	Pods      []Pod
	Dead      []DeadLetter
	Epoch     int64 // of the leader
}

// Run is one run with its tasks and events.
type Run struct {
	ID       workflow.RunID
	Tenant   string
	Family   persistence.Family
	Graph    *workflow.Graph
	Expanded bool // its tasks exist
	Core     lifecycle.Run
	Tasks    []Task            // by step
	Events   []lifecycle.Event // by step, n; the run itself is step -1
	Maps     []lifecycle.Map   // that have begun elements, by step, without Next
	Machine  Machine           // of a machine
}

// Machine is how far a machine has come.
type Machine struct {
	Version     int32 // of the state; 0: there is none
	State       []byte
	Taken       int64
	Base        int64 // entries behind it are kept, and those of up to the next mark may be
	BaseVersion int32
	BaseState   []byte
	BaseStarted int32
}

// Task is one task.
type Task struct {
	lifecycle.Task
	Output   []byte
	Progress []byte
	Item     []byte // the input of what a machine has started
}

// QueueRow is a ready or parked task. It may outlive a task that was canceled
// or timed out while it was queued: the claim discards it.
type QueueRow struct {
	Queue   string
	FairID  int64
	Task    workflow.TaskID
	Suspect bool
	Parked  bool
}

// Timer is a durable timer.
type Timer struct {
	Run   workflow.RunID
	Step  int32
	Kind  lifecycle.TimerKind
	At    time.Time
	Epoch int64
}

// Claim is one task of a claim. It may outlive the grant until the pod says
// that the claim is finished.
type Claim struct {
	Pod   int64
	ID    persistence.ClaimID
	Task  workflow.TaskID
	Epoch int64
}

// Block is the counter of one tenant and lane in a queue.
type Block struct {
	Queue  string
	Tenant string
	Lane   lifecycle.Lane
	Block  int64
}

// Frontier is the block last served in a queue.
type Frontier struct {
	Queue string
	Block int64
}

// Key is an idempotency key in use.
type Key struct {
	Tenant   string
	Workflow string
	Key      string
	Run      workflow.RunID
}

// Entry is a signal for a run.
type Entry struct {
	Run     workflow.RunID
	ID      string
	N       int64 // 0: it is not delivered
	Name    string
	Step    int32 // that has taken it; -1: none
	Payload []byte
}

// Pod is a pod that has not left. A dead one is listed as long as it has tasks
// left to be taken.
type Pod struct {
	ID   int64
	Dead bool
}

// DeadLetter is a task that failed for good.
type DeadLetter struct {
	Task       workflow.TaskID
	Reason     lifecycle.DeadReason
	Class      string
	Error      string
	Attempts   int32
	Lost       int32
	Requeues   int32
	RequeuedAs workflow.RunID
}

// Sort brings every table into its canonical order and drops rows that mean
// the same as their absence: counters at zero.
func (t *Tables) Sort() {
	slices.SortFunc(t.Runs, func(a, b Run) int { return compareRuns(a.ID, b.ID) })
	for i := range t.Runs {
		r := &t.Runs[i]
		slices.SortFunc(r.Tasks, func(a, b Task) int { return cmp.Compare(a.Step, b.Step) })
		slices.SortFunc(r.Events, func(a, b lifecycle.Event) int {
			return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.N, b.N))
		})
	}
	slices.SortFunc(t.Queue, func(a, b QueueRow) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), compareTasks(a.Task, b.Task))
	})
	slices.SortFunc(t.Timers, func(a, b Timer) int {
		return cmp.Or(compareRuns(a.Run, b.Run), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Kind, b.Kind))
	})
	slices.SortFunc(t.Claims, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), bytes.Compare(a.ID[:], b.ID[:]),
			compareTasks(a.Task, b.Task), cmp.Compare(a.Epoch, b.Epoch))
	})
	t.Blocks = slices.DeleteFunc(t.Blocks, func(b Block) bool { return b.Block == 0 })
	slices.SortFunc(t.Blocks, func(a, b Block) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Lane, b.Lane))
	})
	t.Frontiers = slices.DeleteFunc(t.Frontiers, func(f Frontier) bool { return f.Block == 0 })
	slices.SortFunc(t.Frontiers, func(a, b Frontier) int { return cmp.Compare(a.Queue, b.Queue) })
	slices.SortFunc(t.Keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Key, b.Key))
	})
	slices.SortFunc(t.Intake, compareRuns)
	slices.SortFunc(t.Signaled, compareRuns)
	t.Signaled = slices.Compact(t.Signaled)
	slices.SortFunc(t.Inbox, func(a, b Entry) int {
		return cmp.Or(compareRuns(a.Run, b.Run), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(t.Dead, func(a, b DeadLetter) int { return compareTasks(a.Task, b.Task) })
	slices.SortFunc(t.Pods, func(a, b Pod) int { return cmp.Compare(a.ID, b.ID) })
}

// WithoutTimes returns a copy in which every instant is zero, for comparing
// stores whose clocks differ. An instant that a caller gave is kept.
func (t Tables) WithoutTimes() Tables {
	t.Runs = slices.Clone(t.Runs)
	for i := range t.Runs {
		r := &t.Runs[i]
		r.Events = slices.Clone(r.Events)
		for j := range r.Events {
			r.Events[j].At, r.Events[j].WakeAt = time.Time{}, time.Time{}
		}
		r.Tasks = slices.Clone(r.Tasks)
		for j := range r.Tasks {
			r.Tasks[j].WakeAt = r.Tasks[j].WakeAt.UTC()
		}
	}
	t.Timers = slices.Clone(t.Timers)
	for i := range t.Timers {
		t.Timers[i].At = time.Time{}
	}
	return t
}

func compareRuns(a, b workflow.RunID) int { return bytes.Compare(a[:], b[:]) }

func compareTasks(a, b workflow.TaskID) int {
	return cmp.Or(compareRuns(a.Run, b.Run), cmp.Compare(a.Step, b.Step))
}
