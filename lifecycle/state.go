package lifecycle

import "fmt"

// State is where a task or a run stands. The codes are stored and never
// renumbered. The zero value is invalid, so that a forgotten assignment cannot
// pass for Pending.
type State uint8

// The states. Runs use Pending, Running, Completed, Failed and Canceled.
const (
	Pending  State = 1 // waits for its parents; a run: for its start
	Queued   State = 2 // in the ready queue
	Running  State = 3 // held by a pod
	Backoff  State = 4 // failed, waits for its next attempt
	Sleeping State = 5 // a durable timer runs
	Waiting  State = 6 // waits for a signal, a child run, its elements or entries, without a slot

	Completed State = 10
	Failed    State = 11
	Skipped   State = 12
	Canceled  State = 13
)

// States lists every state in use, in the order of their codes.
func States() []State {
	return []State{Pending, Queued, Running, Backoff, Sleeping, Waiting, Completed, Failed, Skipped, Canceled}
}

// String returns the name used in columns, events, logs and diagrams.
func (s State) String() string {
	switch s {
	case Pending:
		return "pending"
	case Queued:
		return "queued"
	case Running:
		return "running"
	case Backoff:
		return "backoff"
	case Sleeping:
		return "sleeping"
	case Waiting:
		return "waiting"
	case Completed:
		return "completed"
	case Failed:
		return "failed"
	case Skipped:
		return "skipped"
	case Canceled:
		return "canceled"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Terminal reports whether nothing leaves s.
func (s State) Terminal() bool { return s >= Completed }
