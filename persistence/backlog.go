package persistence

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
)

const (
	// BacklogMax bounds what a Backlog counts: of the ready tasks of a queue, and of all
	// parked tasks. Where there are more, so many are counted.
	BacklogMax = 100_000
	// BacklogDeadMax is the same for dead letters, whose rows are larger.
	BacklogDeadMax = 10_000
	// BacklogLook is how many tasks at the head of a queue are looked at for the one that
	// has been ready for longest. Each tenant's oldest task is its first, and tenants take
	// turns at the head.
	BacklogLook = 1000
)

// Backlog is what waits in a store at one instant.
type Backlog struct {
	Now    time.Time
	Queues []QueueBacklog  // all that are known, ascending by name
	Parked []ParkedBacklog // ascending by workflow and step
	Dead   []DeadBacklog   // ascending by reason
	Intake time.Time       // when the oldest trigger was stored that a transaction left and no pod took in; zero: there is none
	OldTx  time.Duration   // for how long the oldest transaction of the database has been open, of those that the role may see
}

// QueueBacklog is a queue of a Backlog.
type QueueBacklog struct {
	Queue  string
	Ready  int       // tasks that wait for a slot, at most BacklogMax
	Oldest time.Time // when the one became ready that has waited for longest, of the first BacklogLook; zero: none waits
}

// ParkedBacklog counts tasks of a step that no living pod registers.
type ParkedBacklog struct {
	Workflow string
	Step     string
	Count    int
}

// DeadBacklog counts dead letters that were not requeued.
type DeadBacklog struct {
	Reason lifecycle.DeadReason
	Count  int
}

// Backlogs reads how much waits. Nothing is ever decided from what it returns.
type Backlogs interface {
	// Backlog reads at one instant, and costs no more the more there is. It locks
	// nothing and waits for no lock for longer than half a second.
	Backlog(ctx context.Context) (Backlog, error)
}
