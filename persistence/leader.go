package persistence

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// Fired is what FireTimers did.
type Fired struct {
	Now   time.Time
	Count int             // timers that had an effect
	Late  []time.Duration // how late each of them was, longest first
	Next  time.Time       // earliest timer left; zero: none
	More  bool            // there may be others that are due, which a call at once may find
	Wake  Wake

	// Orphans counts due timers that were removed because the rows of their runs had been
	// deleted by hand.
	Orphans int
}

// Timekeeping fires durable timers. Only the leader calls it; every call
// carries the leader's epoch and fails with ErrDeposed under a newer one.
type Timekeeping interface {
	// FireTimers fires at most limit due timers, each once: half of them the ones
	// that have been due for longest, and the rest those that became due last, so
	// that a backlog of some does not delay what becomes due beside it. A timer of an
	// older epoch than its task's has no effect and is removed. Timers of kinds that
	// this version does not know are left to a leader of a later version, as are those
	// of runs whose definition it does not know: they do not delay others, and once
	// they are due they are not Next.
	FireTimers(ctx context.Context, epoch int64, limit int) (Fired, error)
}

// The death of a pod says something about the tasks of others that die for
// DeathsKept, if it is one of the last DeathsMax. Steps may take hours, and pods
// live for less. It happened lately for DeathsLately.
const (
	DeathsKept   = 24 * time.Hour
	DeathsLately = 10 * time.Minute
	DeathsMax    = 1000
)

// Expired is what ExpirePods did.
type Expired struct {
	Now        time.Time
	Pods       []int64   // declared dead now
	Tasks      int       // taken from them
	NextExpiry time.Time // when the next lease runs out unless renewed; zero: no pods
	Live       int       // living pods
	Wake       Wake
}

// Parked is what ParkTasks did.
type Parked struct {
	Parked   int          // moved out of the queues: no living pod registers their handler
	Unparked int          // moved back: one does
	Work     []ParkedWork // what stays parked, by workflow and step, at most ParkedWorkMax
	Wake     Wake
}

// ParkedWork is the parked tasks of one step that no living pod registers.
type ParkedWork struct {
	Workflow   string
	Step       string
	Definition workflow.Hash // of the run that has the first of them
	Tasks      int           // at most ParkedCountMax
}

const (
	// ParkedWorkMax bounds the steps of one answer: they are for people.
	ParkedWorkMax = 20
	// ParkedCountMax bounds the tasks that are counted of a step.
	ParkedCountMax = 1000
)

// Housekeeping looks after what no pod looks after. Only the leader calls it;
// every call carries the leader's epoch and fails with ErrDeposed under a
// newer one.
type Housekeeping interface {
	// ExpirePods declares pods dead whose lease has run out and takes their
	// tasks: one loss each, maxLost losses fail a task, or up to twice as many
	// where other pods have died (lifecycle, ADR 0022). At most
	// limit tasks per call; a pod with tasks left stays in the answer of the
	// next call, and so do those after it. A lease that ends after notAfter has not run
	// out, whatever the clock says, which may have leapt; zero: it is believed.
	ExpirePods(ctx context.Context, epoch int64, maxLost, limit int, notAfter time.Time) (Expired, error)

	// ParkTasks moves at most limit queue rows whose handler no living pod
	// registers out of the way, and at most limit of those that one registers
	// again back: to their old place if the queue has not been served up to
	// there, else under a fresh fair id. A fresh one for all would put a tenant
	// with much parked work behind everything that others queued since.
	ParkTasks(ctx context.Context, epoch int64, limit int) (Parked, error)

	// WakeParents looks at the next steps that wait for a child run, at most limit behind a
	// task, and lets DrainIntake tell their runs if the child has ended or is gone and
	// nothing else will: a pod of an older version may have ended it.
	WakeParents(ctx context.Context, epoch int64, after workflow.TaskID, limit int) (Woken, error)
}

// Woken is what WakeParents did.
type Woken struct {
	Count int             // runs that DrainIntake will tell of their children
	Next  workflow.TaskID // where to go on; zero: these were the last
	Wake  Wake
}

// Leadership is the fence of the leader's writes.
type Leadership interface {
	// BumpEpoch makes the caller the newest leader and returns its epoch. The
	// caller must hold the election's lock.
	BumpEpoch(ctx context.Context, holder int64) (epoch int64, err error)
}
