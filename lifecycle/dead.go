package lifecycle

import (
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/workflow"
)

// DeadReason says why a task failed for good. The codes are stored and never
// renumbered.
type DeadReason uint8

// The reasons.
const (
	_                 DeadReason = iota
	AttemptsExhausted            // its last attempt failed with an error that another might have cured
	NonRetryable                 // its error is one that no attempt cures, or a condition on the way to it broke
	PoisonPill                   // its pods died with it, time after time
	Unregistered                 // no pod registered its step in time
	Undecodable                  // what it takes or gives could not be decoded, encoded or stored
	TimedOut                     // its last attempt, or its wait in the queue or for a signal, took too long
)

// String returns the name used in columns, flags and answers.
func (r DeadReason) String() string {
	switch r {
	case AttemptsExhausted:
		return "attempts_exhausted"
	case NonRetryable:
		return "non_retryable"
	case PoisonPill:
		return "poison"
	case Unregistered:
		return "unregistered"
	case Undecodable:
		return "undecodable"
	case TimedOut:
		return "timed_out"
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// DeadReasons lists every reason, in the order of their codes.
func DeadReasons() []DeadReason {
	return []DeadReason{AttemptsExhausted, NonRetryable, PoisonPill, Unregistered, Undecodable, TimedOut}
}

// Counts reports whether a failure for reason r becomes a dead letter where
// those of counting do; none stands for all.
func (r DeadReason) Counts(counting []DeadReason) bool {
	return len(counting) == 0 || slices.Contains(counting, r)
}

// Death is a task that failed for good, in a decision.
type Death struct {
	Step    int32
	Reason  DeadReason
	Handled bool // it does not fail the run by itself: [Task.Handled]
}

// reasonOf says why a task died of the error of an attempt.
func reasonOf(r TaskReported) DeadReason {
	switch {
	case r.Class == ClassBadRow, r.Class == ClassEncoding, r.Class == ClassDecoding, r.Class == ClassTooLarge:
		return Undecodable
	case r.TimedOut != "":
		return TimedOut
	case r.Exhausted:
		return AttemptsExhausted
	}
	return NonRetryable
}

// Classes of errors between two step functions.
const (
	ClassEncoding = "encoding"  // a value that the codec does not take
	ClassDecoding = "decoding"  // stored bytes that the codec does not take
	ClassTooLarge = "too_large" // a value beyond the limit of payloads
)

// Classes of steps whose child run did not complete.
const (
	ClassChildFailed   = "child_failed"
	ClassChildCanceled = "child_canceled"
	ClassChildGone     = "child_gone" // its rows were removed before the step heard of its end
	ClassTooDeep       = "too_deep"   // it would have more than DepthMax runs above it
)

// ClassWaitTimeout is the class of a step that waited for a signal for too long.
const ClassWaitTimeout = "wait_timeout"

// Classes of machines.
const (
	ClassStalled        = "stalled"          // it has nothing open, hears no signals and has not ended
	ClassActivityFailed = "activity_failed"  // it does not handle the failure of an activity, or of a child run
	ClassMachine        = "machine"          // it said so, with an error without a class
	ClassTooManyActions = "too_many_actions" // an activation starts and cancels more than may be
	ClassStateVersion   = "state_version"    // the program does not know the version of the state
	ClassUnknownEntry   = "unknown_entry"    // the program does not declare what an entry is about
	ClassTooManyOpen    = "too_many_open"    // it would have more than OpenMax activities, timers and child runs open
)

// ClassElementFailed is the class of a map of which too many elements did not complete.
const ClassElementFailed = "element_failed"

// Resume says what a run that continues an ended one takes over from it:
// tasks are those of the ended run, of graph, in the order of their steps. A machine takes
// over its state and what [ResumeMachine] says.
//
// The new run has no dynamic task of the ended one: the owner of one that did not
// complete gets another chance, too, and makes them again. Of a map that did not complete,
// and gets the same list again, the elements that did complete are taken over: maps names
// these steps.
//
// Everything that did not complete gets another chance, and so does all that
// comes after it, and after dead, which saw how it had ended. What completed
// otherwise is kept: its output stands, its function is not called again. A
// task that was skipped is decided upon anew, and skips nothing that is kept.
func Resume(graph *workflow.Graph, tasks []Task, dead int32) (kept, maps []int32) {
	if graph.IsMachine() {
		return nil, nil
	}
	again := make([]bool, len(graph.Nodes))
	owners := unfinished(tasks, dead)
	for i := range graph.Nodes { // parents come first
		t := &tasks[i]
		sameInputs := !again[i]
		again[i] = again[i] || t.Step == dead || t.State != Completed && t.State != Skipped || owners[t.Step]
		if !again[i] {
			if t.State == Completed {
				kept = append(kept, int32(i))
			}
			continue
		}
		if sameInputs && graph.Nodes[i].Kind == workflow.Map {
			maps = append(maps, int32(i))
		}
		for _, child := range graph.Nodes[i].Children {
			again[child.Step] = true
		}
	}
	return kept, maps
}

// unfinished returns the owners of dynamic tasks that did not complete, and their owners.
// An owner has a lower number than what it made. A map answers for its elements.
func unfinished(tasks []Task, dead int32) map[int32]bool {
	owners := map[int32]bool{}
	for i := range slices.Backward(tasks) {
		t := &tasks[i]
		if t.Dynamic != nil && !t.IsElement() && (t.Step == dead || t.State != Completed && t.State != Skipped || owners[t.Step]) {
			owners[t.Dynamic.Owner] = true
		}
	}
	return owners
}

// InputFlags returns the flags of a task of a new run that conditions on the input
// skip or fail, with marks that the input decided it, for runs that continue this
// one.
func InputFlags(said Flags) Flags {
	said &= FlagSkip | FlagFail
	if said&FlagSkip != 0 {
		said |= FlagInputSkip
	}
	if said&FlagFail != 0 {
		said |= FlagInputFail
	}
	return said
}

// SaidByInput returns what conditions on the input said about a task, as it was
// given to InputFlags.
func SaidByInput(flags Flags) Flags {
	var said Flags
	if flags&FlagInputSkip != 0 {
		said |= FlagSkip
	}
	if flags&FlagInputFail != 0 {
		said |= FlagFail
	}
	return said
}
