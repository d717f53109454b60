package persistence

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// Bounds of what the reads of RunViews look at and return: each costs the same however
// much waits.
const (
	// QueuesMax bounds the queues that are told of.
	QueuesMax = 1000
	// PlacesMax bounds the tenants that are told of for each queue.
	PlacesMax = 1000
	// WaitingMax bounds the rows of a queue, and of a handler's parked tasks, that are
	// counted.
	WaitingMax = 10_000
	// OldestLook bounds the tasks of those that are asked since when they wait. In a queue the
	// oldest task of each tenant is its first, and tenants take turns.
	OldestLook = 1000
	// ParkedMax bounds the handlers of parked work that are told of.
	ParkedMax = 1000
	// DefinitionsMax bounds the stored definitions that are told of, and UnregisteredMax
	// the steps of each that no pod registers.
	DefinitionsMax, UnregisteredMax = 10_000, 100
	// PodsMax bounds the pods that are told of.
	PodsMax = 10_000
)

// PayloadHead is the beginning of a payload.
type PayloadHead struct {
	Data  []byte          // as many bytes as were asked for at most
	Size  int             // of all of it; -1: there is none
	State lifecycle.State // of the task; 0: of the input, or the run has no tasks yet
	Class string          // of the task's error
	Error string
}

// QueueRow is a queue as a reader sees it.
type QueueRow struct {
	Queue   string
	Ready   int           // rows of tasks that wait for a slot, at most WaitingMax
	More    bool          // there are more of all tenants than were counted
	Waited  time.Duration // of those, how long the one has waited that did for longest; 0: none waits
	Running int           // tasks
	Places  []TenantPlace // of tenants that have places to be served, the furthest first, then by name
}

// TenantPlace says how far the last tasks of a tenant in a queue are from being served:
// in turns, in each of which every tenant is served once.
type TenantPlace struct {
	Tenant     string
	Continuing int64 // of tasks of runs that are under way; 0: none waits
	New        int64 // of first tasks of new runs
}

// Furthest returns the larger distance.
func (p TenantPlace) Furthest() int64 { return max(p.Continuing, p.New) }

// ParkedRow is work of one handler and queue that no living pod can execute.
type ParkedRow struct {
	Handler

	Queue string
	Tasks int       // at most WaitingMax
	More  bool      // there are more of the handler's than were counted
	Since time.Time // when the one became ready that has waited for longest
}

// DefinitionRow is a stored definition.
type DefinitionRow struct {
	Workflow     string
	Hash         workflow.Hash
	Steps        int      // but the failure handler
	Unregistered []string // steps with a function that no living pod registers
}

// PodRow is a pod that was not declared dead.
type PodRow struct {
	ID        int64
	Name      string
	Version   string // of its binary
	Protocol  int16
	Slots     int
	Queues    []string
	StartedAt time.Time
	Expires   time.Time     // its lease
	Lease     time.Duration // how long that is from now; negative: it has run out
	Leads     bool
}

// RunViews reads one run, and what work waits for.
type RunViews interface {
	// Events returns at most limit events (0, and at most: PageMax) of a run that a
	// position does not cover, oldest first. Whatever commits late, no event is left out
	// for good if the next call gets seen.After what this one returned: of
	// each step the events come in the order of their numbers. ErrRunNotFound as Runs.Run.
	Events(ctx context.Context, tenant string, run workflow.RunID, seen EventPosition, limit int) ([]lifecycle.Event, error)
	// Payload returns the first limit bytes of the output of a step, or of the input for
	// step "". No more is read of a run that has not been archived. A run that the
	// tenant does not have gives ErrRunNotFound, a name that neither its definition nor a
	// dynamic task of it has ErrStepNotFound.
	Payload(ctx context.Context, tenant string, run workflow.RunID, step string, limit int) (PayloadHead, error)
	// Queues returns the queues by name, at most QueuesMax, with what waits in them of a
	// tenant. What is counted of a tenant is among the first WaitingMax rows of a queue.
	Queues(ctx context.Context, tenant string) ([]QueueRow, error)
	// ParkedWork returns what no living pod can execute, by workflow, step, fingerprint
	// and queue: of ParkedMax handlers at most.
	ParkedWork(ctx context.Context, tenant string) ([]ParkedRow, error)
	// Workflows returns the stored definitions by workflow and hash, at most
	// DefinitionsMax.
	Workflows(ctx context.Context) ([]DefinitionRow, error)
	// Pods returns the pods that were not declared dead, by number, at most PodsMax.
	Pods(ctx context.Context) ([]PodRow, error)
}
