package lifecycle

import (
	"errors"
	"fmt"
)

// ErrIllegalTransition means that the caller has a bug: the step cannot
// happen, however late or often messages arrive.
var ErrIllegalTransition = errors.New("lifecycle: illegal transition")

// transition is one line of a table. What no line names is illegal. The
// diagrams under docs/diagrams are drawn from these tables.
type transition struct {
	from, to State
	when     string
}

// taskTable is the whole lifecycle of a task.
var taskTable = [...]transition{
	{Pending, Queued, "parents ended, it may run"},
	{Pending, Sleeping, "parents ended, it is a sleep"},
	{Pending, Waiting, "parents ended, it waits for a signal"},
	{Pending, Completed, "parents ended, its signal is there; or an earlier run has completed the element"},
	{Pending, Failed, "its condition panicked, or it sleeps until no instant"},
	{Pending, Skipped, "a parent or a condition skips it"},
	{Pending, Canceled, "a parent, the policy or a cancel stops it"},

	{Queued, Running, "claimed"},
	{Queued, Failed, "waited in the queue for too long"},
	{Queued, Canceled, "the policy or a cancel stops it"},

	{Running, Queued, "lost or handed back, or a machine for which entries have come meanwhile"},
	{Running, Backoff, "failed, may try again"},
	{Running, Completed, "succeeded"},
	{Running, Failed, "failed for good, or was lost too often"},
	{Running, Waiting, "its child run begins, or its elements; or a machine that has handled all entries"},
	{Running, Canceled, "ended badly while its run stops"},

	{Backoff, Queued, "its delay is over"},
	{Backoff, Canceled, "the policy or a cancel stops it"},

	{Sleeping, Completed, "its timer fired"},
	{Sleeping, Canceled, "the policy or a cancel stops it"},

	{Waiting, Completed, "its signal came, or its child run completed"},
	{Waiting, Queued, "the same, and conditions look at the output; or its elements have ended; or a machine for which an entry came"},
	{Waiting, Failed, "no signal came in time, or its child run or too many elements failed; or a machine that nothing can wake"},
	{Waiting, Skipped, "no signal came in time, and it may be left out; or its child run has no output"},
	{Waiting, Canceled, "the policy or a cancel stops it"},
}

// runTable is the whole lifecycle of a run.
var runTable = [...]transition{
	{Pending, Running, "its start came"},
	{Pending, Canceled, "canceled before its start"},

	{Running, Completed, "all tasks ended, none failed unhandled"},
	{Running, Failed, "all tasks ended, one failed unhandled"},
	{Running, Canceled, "all tasks ended, a cancel took effect"},
}

// CheckTask returns ErrIllegalTransition unless a task may go from one state
// to the other.
func CheckTask(from, to State) error { return check("task", taskTable[:], from, to) }

// CheckRun returns ErrIllegalTransition unless a run may go from one state to
// the other.
func CheckRun(from, to State) error { return check("run", runTable[:], from, to) }

func check(what string, table []transition, from, to State) error {
	for i := range table {
		if table[i].from == from && table[i].to == to {
			return nil
		}
	}
	return fmt.Errorf("%w: %s from %v to %v", ErrIllegalTransition, what, from, to)
}
