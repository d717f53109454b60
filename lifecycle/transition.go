package lifecycle

import (
	"errors"
	"fmt"
)

// ErrIllegalTransition means that the caller has a bug: the step cannot
// happen, however late or often messages arrive.
var ErrIllegalTransition = errors.New("lifecycle: illegal transition")

// table lists, for each state, the states that may follow. What is absent is
// illegal. The diagrams under docs/diagrams are drawn from these tables.
type table map[State][]State

// taskTable is the whole lifecycle of a task.
func taskTable() table {
	return table{
		// Failed: its condition panicked.
		Pending: {Queued, Sleeping, Failed, Skipped, Canceled},
		// Failed: it waited in the queue for too long.
		Queued: {Running, Failed, Canceled},
		// Queued: its lease was lost, or its pod handed it back.
		Running:  {Queued, Backoff, Completed, Failed, Canceled},
		Backoff:  {Queued, Failed, Canceled},
		Sleeping: {Completed, Failed, Canceled},
	}
}

// runTable is the whole lifecycle of a run.
func runTable() table {
	return table{
		Pending: {Running, Canceled},
		Running: {Completed, Failed, Canceled},
	}
}

// CheckTask returns ErrIllegalTransition unless a task may go from one state
// to the other.
func CheckTask(from, to State) error { return check("task", taskTable(), from, to) }

// CheckRun returns ErrIllegalTransition unless a run may go from one state to
// the other.
func CheckRun(from, to State) error { return check("run", runTable(), from, to) }

func check(what string, t table, from, to State) error {
	for _, next := range t[from] {
		if next == to {
			return nil
		}
	}
	return fmt.Errorf("%w: %s from %v to %v", ErrIllegalTransition, what, from, to)
}
