package troupe

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// QueueStatus is what waits in a queue, and runs from it: of one tenant if the call
// names one.
type QueueStatus struct {
	Name        string
	Ready       int           // steps that wait for a slot
	More        bool          // more than 10,000 wait; Ready counts the first
	OldestReady time.Duration // how long the oldest of them has waited, by the database's clock; 0: none waits
	Running     int           // steps that pods execute
	Tenants     []TenantPlace // with work that waits, the furthest first; at most 1000
}

// TenantPlace says how many turns it takes until all that a tenant has in a queue now is
// served. In a turn every tenant that waits is served once, so a tenant alone is served at
// each turn.
type TenantPlace struct {
	Tenant     string
	Continuing int64 // of steps of runs that are under way
	New        int64 // of first steps of new runs
}

// Queues reads the queues, by name.
func (r *Reader) Queues(ctx context.Context, tenant string) ([]QueueStatus, error) {
	if refused := actors.CheckFilter(tenant, "", "", nil); refused != nil {
		return nil, fmt.Errorf("read queues: tenant: %s", refused.Remedy)
	}
	return readFrom(ctx, r, func(ctx context.Context, from reading) ([]QueueStatus, error) {
		rows, err := from.store.Queues(ctx, from.tenant(tenant))
		list := make([]QueueStatus, len(rows))
		for i, row := range rows {
			list[i] = QueueStatus{Name: row.Queue, Ready: row.Ready, More: row.More, OldestReady: row.Waited, Running: row.Running}
			for _, place := range row.Places {
				list[i].Tenants = append(list[i].Tenants, TenantPlace(place))
			}
		}
		return list, err
	})
}

// handlerDigits is how much of a fingerprint people see.
const handlerDigits = 12

// handlerText is how people see the fingerprint of a step.
func handlerText(fingerprint workflow.Hash) string {
	if fingerprint.IsZero() {
		return ""
	}
	return hex.EncodeToString(fingerprint[:handlerDigits/2])
}

// ParkedWork are steps that no living pod can execute: none has registered the workflow
// with this version of the step.
type ParkedWork struct {
	Workflow string
	Step     string
	Handler  string // how the fingerprint of the step begins, which is that of its version
	Queue    string
	Tasks    int       // of all runs
	More     bool      // more than 10,000 wait; Tasks counts the first
	Since    time.Time // when the oldest became ready
}

// Parked reads the work that no living pod can execute, by workflow, step, version and queue.
func (r *Reader) Parked(ctx context.Context, tenant string) ([]ParkedWork, error) {
	if refused := actors.CheckFilter(tenant, "", "", nil); refused != nil {
		return nil, fmt.Errorf("read parked work: tenant: %s", refused.Remedy)
	}
	return readFrom(ctx, r, func(ctx context.Context, from reading) ([]ParkedWork, error) {
		rows, err := from.store.ParkedWork(ctx, from.tenant(tenant))
		list := make([]ParkedWork, len(rows))
		for i, row := range rows {
			list[i] = ParkedWork{
				Workflow: row.Workflow, Step: row.Step, Handler: handlerText(row.Fingerprint), Queue: row.Queue,
				Tasks: row.Tasks, More: row.More, Since: row.Since,
			}
		}
		return list, err
	})
}

// WorkflowVersion is a stored definition of a workflow.
type WorkflowVersion struct {
	Workflow     string
	Definition   string   // its hash, in hexadecimal
	Steps        int      // without what OnFailure declares
	Unregistered []string // steps that no living pod registers, at most 100; none: all are registered
}

// Workflows reads the stored definitions of all workflows, by name and hash.
func (r *Reader) Workflows(ctx context.Context) ([]WorkflowVersion, error) {
	return readFrom(ctx, r, func(ctx context.Context, from reading) ([]WorkflowVersion, error) {
		rows, err := from.store.Workflows(ctx)
		list := make([]WorkflowVersion, len(rows))
		for i, row := range rows {
			list[i] = WorkflowVersion{Workflow: row.Workflow, Definition: row.Hash.String(), Steps: row.Steps, Unregistered: row.Unregistered}
		}
		return list, err
	})
}

// WorkflowStep is a step of a stored definition.
type WorkflowStep struct {
	Name      string
	Parents   []string      // parameters of its function, in their order
	Queue     string        // "": that of the run
	Handler   string        // how its fingerprint begins, which is that of its version
	Sleeps    bool          // a durable timer, which needs no pod
	SleepFor  time.Duration // how long it sleeps; 0: until an instant that a step gives, or it is no sleep
	Signal    string        // that it waits for; "": it is no wait
	Deadline  time.Duration // of the wait; 0: it waits for ever
	SkipsLate bool          // at the deadline it is skipped; else it fails
	Child     string        // the workflow whose runs it begins and waits for; "": it begins none
	Map       bool          // it executes its function for each element of a list
	OnFailure bool          // declared with OnFailure
}

// Steps reads the steps of a stored definition, parents before their children, the one of
// OnFailure last. It takes a hash as WorkflowVersion.Definition has it, or returns
// [ErrDefinitionNotFound].
func (r *Reader) Steps(ctx context.Context, definition string) ([]WorkflowStep, error) {
	digits, err := hex.DecodeString(definition)
	var hash workflow.Hash
	if err != nil || copy(hash[:], digits) != len(digits) || len(digits) != len(hash) {
		return nil, fmt.Errorf("read steps: definition is %.80q: use a hash as Workflows returns it, %d hexadecimal digits", definition, 2*len(hash))
	}
	return readFrom(ctx, r, func(ctx context.Context, from reading) ([]WorkflowStep, error) {
		graph, err := from.store.Definition(ctx, hash)
		if err != nil {
			return nil, err
		}
		if graph == nil {
			return nil, fmt.Errorf("%w: %s", ErrDefinitionNotFound, definition)
		}
		return workflowSteps(graph), nil
	})
}

func workflowSteps(graph *workflow.Graph) []WorkflowStep {
	nodes := graph.Nodes
	if graph.OnFailure != nil {
		nodes = append(nodes[:len(nodes):len(nodes)], *graph.OnFailure)
	}
	list := make([]WorkflowStep, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		list[i] = WorkflowStep{
			Name: n.Name, Queue: n.Queue, Handler: handlerText(n.Fingerprint),
			Sleeps: n.Traits.Has(workflow.TraitSleep) || n.Traits.Has(workflow.TraitSleepUntil),
			Signal: n.Signal, SkipsLate: n.Traits.Has(workflow.TraitSkipsLate), Child: n.Child.Workflow, Map: n.Kind == workflow.Map, OnFailure: n.Traits.Has(workflow.TraitOnFailure),
		}
		if list[i].Sleeps {
			list[i].SleepFor = n.Sleep
		} else {
			list[i].Deadline = n.Sleep
		}
		for _, parent := range n.Parents {
			list[i].Parents = append(list[i].Parents, nodes[parent].Name)
		}
	}
	return list
}

// PodStatus is a pod that was not declared dead.
type PodStatus struct {
	Number    int64 // no other start of any pod has it
	Name      string
	Version   string // of its program
	Protocol  int    // of the engine: what pods of one database have to know of each other; 0: older than the number
	Slots     int
	Queues    []string
	StartedAt time.Time
	Expires   time.Time     // its lease, unless it is renewed
	Lease     time.Duration // how long that is from now, by the database's clock; negative: it has run out
	Leads     bool
}

// Pods reads the pods that were not declared dead, by number.
func (r *Reader) Pods(ctx context.Context) ([]PodStatus, error) {
	return readFrom(ctx, r, func(ctx context.Context, from reading) ([]PodStatus, error) {
		rows, err := from.store.Pods(ctx)
		list := make([]PodStatus, len(rows))
		for i := range rows {
			list[i] = podStatus(&rows[i])
		}
		return list, err
	})
}

func podStatus(row *persistence.PodRow) PodStatus {
	return PodStatus{
		Number: row.ID, Name: row.Name, Version: row.Version, Protocol: int(row.Protocol), Slots: row.Slots, Queues: row.Queues,
		StartedAt: row.StartedAt, Expires: row.Expires, Lease: row.Lease, Leads: row.Leads,
	}
}
