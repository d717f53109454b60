package troupe

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/lifecycle"
)

// How a parent held by [Settled] ended without an output. A failed one gives a
// [*StepError].
var (
	// ErrStepSkipped: the step did not run.
	ErrStepSkipped = errors.New("step was skipped")
	// ErrStepCanceled: the step was canceled, alone or with its run.
	ErrStepCanceled = errors.New("step was canceled")
)

// ErrStepNotEnded is returned by [OutputOf] for a step that has not ended yet.
var ErrStepNotEnded = errors.New("step has not ended")

// StepError is a step that failed for good, as others get to see it.
type StepError struct {
	Step  string // "": an element of a [MapSettled]
	Class string // see [Class]
	Text  string // of its last error
}

// Error implements error.
func (e *StepError) Error() string {
	who := "an element"
	if e.Step != "" {
		who = fmt.Sprintf("step %q", e.Step)
	}
	if e.Class == "" {
		return fmt.Sprintf("%s failed: %s", who, e.Text)
	}
	return fmt.Sprintf("%s failed (%s): %s", who, e.Class, e.Text)
}

// Is makes the error of a step that waited for too long match [ErrWaitTimeout], and that of a step
// whose child run did not complete [ErrChildFailed], [ErrChildCanceled], [ErrChildGone] or
// [ErrTooDeep], and that of a map of which too many elements failed [ErrElementFailed].
func (e *StepError) Is(target error) bool { return target == errorOf(e.Class) }

// errorOf returns the error that a class of the engine stands for; nil: none.
func errorOf(class string) error {
	switch class {
	case lifecycle.ClassWaitTimeout:
		return ErrWaitTimeout
	case lifecycle.ClassChildFailed:
		return ErrChildFailed
	case lifecycle.ClassChildCanceled:
		return ErrChildCanceled
	case lifecycle.ClassChildGone:
		return ErrChildGone
	case lifecycle.ClassTooDeep:
		return ErrTooDeep
	case lifecycle.ClassElementFailed:
		return ErrElementFailed
	}
	return nil
}

// Why a step of [Child] failed. A [RunError], and the [StepError] of a parent held by [Settled],
// match one of these; their text names the child run.
var (
	// ErrChildFailed: the child run failed. The text has the step that failed, and its error.
	ErrChildFailed = errors.New("child run failed")
	// ErrChildCanceled: the child run was canceled, not with the step that waits for it.
	ErrChildCanceled = errors.New("child run was canceled")
	// ErrChildGone: the child run was removed with its history before the step heard of its end.
	ErrChildGone = errors.New("child run is gone")
	// ErrTooDeep: 32 runs are above this one, each a child of the next, so that none was begun.
	ErrTooDeep = errors.New("child runs are nested too deep")
)

// ErrElementFailed is the error of a [Map] of which an element failed, and of a [MapSettled] of which
// more failed than [ToleratedFailures] allows. A [RunError], and the [StepError] of a parent held by
// [Settled], match it; their text has the number of the element, and its error.
var ErrElementFailed = errors.New("an element of a map failed")

// ErrWaitTimeout is the error of a wait of which no signal came before the deadline of [FailAfter]. A [RunError], and the
// [StepError] of a parent held by [Settled], match it. It is a context.DeadlineExceeded, which
// these errors are not: that is the end of a context.
var ErrWaitTimeout error = waitTimeoutError{}

type waitTimeoutError struct{}

// Error implements error.
func (waitTimeoutError) Error() string { return "no signal came in time" }

// Unwrap returns context.DeadlineExceeded.
func (waitTimeoutError) Unwrap() error { return context.DeadlineExceeded }

// Why the context of a step function has ended: context.Cause returns one of
// these.
var (
	// ErrCanceled: the run was asked to stop.
	ErrCanceled = actors.ErrCanceled
	// ErrAttemptTimeout: the attempt took longer than its [AttemptTimeout].
	ErrAttemptTimeout = actors.ErrAttemptTimeout
	// ErrHeartbeatTimeout: the attempt was silent for longer than its
	// [HeartbeatTimeout].
	ErrHeartbeatTimeout = actors.ErrHeartbeatTimeout
	// ErrLeaseLost: this process may no longer write for the task; another one
	// may be executing it.
	ErrLeaseLost = actors.ErrLeaseLost
	// ErrStopping: the engine stops; the task is handed to another one and the
	// attempt does not count.
	ErrStopping = actors.ErrStopping
)

// Terminal marks an error that no further attempt will cure: a step function
// that returns it fails at once, whatever its [Retry]. It returns nil for nil.
func Terminal(err error) error { return actors.Terminal(err) }

// Class names the kind of error that err is, so that failures can be sorted: it is
// stored beside the text and shown by statuses, events and [StepError].
// Names are yours; the engine uses the classes encoding, decoding, too_large,
// condition, panic, timed_out, wait_timeout, child_failed, child_canceled, child_gone, too_deep,
// element_failed, canceled, lost, conflict, transaction, wrap and bad_row. It returns nil for nil.
func Class(class string, err error) error { return actors.WithClass(class, err) }

// Classes of errors that come from between two step functions.
const (
	classEncoding = lifecycle.ClassEncoding // a value that the codec does not take
	classDecoding = lifecycle.ClassDecoding // stored bytes that the codec does not take
)

// terminal is an error of one of our classes that no attempt will cure.
func terminal(class string, err error) error {
	return actors.Terminal(actors.WithClass(class, err))
}
