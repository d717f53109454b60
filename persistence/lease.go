package persistence

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// Protocol is the number of the engine's protocol: what pods of one database have to know
// of each other's rows. It grows by one when a version stores something that pods of the
// version before it cannot carry out; the older pods leave that to the newer ones. The row
// of a pod that is older than the number has 0. Pods of version 2 know dynamic tasks, pods of
// version 3 know signals, those of version 4 child runs, those of version 5 maps, those of version 6
// machines.
const Protocol int16 = 6

// ProtocolOf returns the lowest protocol of pods that know the workflow of a graph.
func ProtocolOf(graph *workflow.Graph) int16 {
	switch {
	case graph.IsMachine():
		return 6
	case graph.HasMaps():
		return 5
	case graph.HasChildren():
		return 4
	case len(graph.Signals()) > 0:
		return 3
	}
	return 0
}

// PodNamesMax bounds the starts of pods whose names are kept for readers of history, the
// latest.
const PodNamesMax = 100_000

// PodInfo describes a starting pod.
type PodInfo struct {
	Name     string // for people; not unique
	Handlers []int32
	Queues   []string
	Slots    int           // tasks that it executes at once; 0: it only triggers and reads
	TTL      time.Duration // of the lease
	Version  string        // of the binary
	Protocol int16         // that it speaks: see the constant
}

// Held is one task that a pod executes or has a grant for.
type Held struct {
	Task     workflow.TaskID
	Epoch    int64
	Progress []byte // nil: unchanged since the last renewal
}

// Renewal asks to renew a pod's lease.
type Renewal struct {
	Pod  int64
	TTL  time.Duration
	Held []Held
	Load Load
}

// Load is how much use wakes are to a pod.
type Load int16

// The loads, the least first.
const (
	LoadIdle Load = iota // it has a slot to spare
	LoadFull             // it has none at the moment
	LoadBusy             // for a while now wakes would have found nothing to do on it
)

// Renewed answers a renewal.
type Renewed struct {
	Now       time.Time
	Expires   time.Time
	Canceling []workflow.RunID // held runs that were asked to stop
	Stopped   []Held           // held tasks that the machine which has started them has canceled
	Lost      []Held           // held tasks that are no longer this pod's
	Unheld    []Held           // tasks that are this pod's by the table, but not in Held
	Pods      int              // living pods, this one included
	Executing int              // those of them that have slots
	Waiting   int              // those of them that were not busy at their last renewal
	Idle      int              // those that were idle then
	Place     int              // idle ones with a lower number
}

// Lease keeps a pod alive in the database.
type Lease interface {
	// JoinPod inserts the pod's row and returns its number, which no other
	// start of any pod ever gets.
	JoinPod(ctx context.Context, pod PodInfo) (id int64, now time.Time, err error)

	// RenewPod extends the lease to now + TTL, stores progress, forgets the
	// pod's claims of which it holds no task by the tables, and compares what
	// the pod holds with the tables. A pod that is late but not marked dead
	// stays alive; a dead one gets ErrPodDead.
	//
	// With an error, Renewed.Expires says whether the lease was renewed all the
	// same: if it is not zero, the lease and the counts of pods are as without an
	// error, but no progress is stored, and Canceling, Lost and Unheld are unknown.
	RenewPod(ctx context.Context, renewal Renewal) (Renewed, error)

	// LeavePod removes the pod's row. What it still holds is handed back
	// uncharged first. With an error the wake is of what was handed back before it.
	LeavePod(ctx context.Context, pod int64) (Wake, error)

	// Ping asks the database to send so many bytes back, on the way that work takes: a
	// network may pass small messages and drop large ones. It reads no table.
	Ping(ctx context.Context, bytes int) error
}
