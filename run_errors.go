package troupe

import (
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// How a run ended other than with an output. Use errors.Is.
var (
	// ErrRunFailed: a step failed and nothing handled it. See [RunError].
	ErrRunFailed = errors.New("run failed")
	// ErrRunCanceled: the run was canceled before it completed.
	ErrRunCanceled = errors.New("run canceled")
	// ErrNoOutput: the run completed, but the step that gives its output was
	// skipped.
	ErrNoOutput = errors.New("run has no output")
)

// What a call to the engine can meet. Use errors.Is.
var (
	// ErrRunNotFound: no run with this id belongs to this tenant.
	ErrRunNotFound = persistence.ErrRunNotFound
	// ErrUnavailable: the database cannot be reached right now, or has not answered
	// within 30 s, after which every call ends but those that wait for the end of a
	// run. Whether the request took effect is unknown; asking again with the same Key
	// is safe. A call whose context has ended fails with the context's error instead,
	// one that finds no tables with migrations.ErrBehind.
	ErrUnavailable = persistence.ErrUnavailable
	// ErrStatementTimeout: the server ended a statement of the call, which took longer
	// than its statement_timeout or was canceled there. Nothing was written.
	ErrStatementTimeout = persistence.ErrStatementTimeout
	// ErrKeyConflict: a run with this key exists and has another input.
	ErrKeyConflict = errors.New("idempotency key was used with another input")
	// ErrRefused: the trigger, or the signal, was refused and nothing was stored. See
	// [TriggerError] and [SendError].
	ErrRefused = errors.New("trigger refused")
	// ErrTxRefused: TriggerTx, or Signal.SendTx, stores nothing in this transaction: it has ended, only
	// reads, or leads to another database than the engine, such as a standby. Another
	// transaction helps. During a failover, the engine's own connections may
	// lead to the former primary for some seconds: begin a transaction again then.
	// One that only reads is ErrUnavailable, too.
	ErrTxRefused = persistence.ErrTxRefused
	// ErrNotStarted: the engine was not started, or has stopped.
	ErrNotStarted = errors.New("engine is not running")
	// ErrStarted: the call is only possible before Start.
	ErrStarted = errors.New("engine was started")
)

// RunError says how a run ended and why.
type RunError struct {
	Run    workflow.RunID
	State  State
	Step   string // the step that failed first
	Class  string // of its error
	Text   string // its error, or the reason of the cancel
	reason error
}

// Error implements error.
func (e *RunError) Error() string {
	switch {
	case e.Step != "":
		return fmt.Sprintf("run %v: %v: step %q: %s", e.Run, e.reason, e.Step, e.Text)
	case e.Text != "":
		return fmt.Sprintf("run %v: %v: %s", e.Run, e.reason, e.Text)
	}
	return fmt.Sprintf("run %v: %v", e.Run, e.reason)
}

// Unwrap returns ErrRunFailed, ErrRunCanceled or ErrNoOutput.
func (e *RunError) Unwrap() error { return e.reason }

// Is makes the error of a run that failed because a step waited for too long match
// [ErrWaitTimeout], because its child run did not complete [ErrChildFailed], [ErrChildCanceled],
// [ErrChildGone] or [ErrTooDeep], or because of an element of a map [ErrElementFailed].
func (e *RunError) Is(target error) bool { return e.State == StateFailed && target == errorOf(e.Class) }

// TriggerError says why a trigger was refused: the field at fault and the
// remedy. Nothing was stored, but for Unavailable, of which that is not known.
type TriggerError struct {
	Code   RefusalCode
	Field  string
	Remedy string
	Run    workflow.RunID // KeyConflict: the run that has the key
	cause  error
}

// RefusalCode says what kind of refusal a [TriggerError] or a [SendError] is. The codes are
// those of the messages TriggerRefused and SignalRefused.
type RefusalCode string

// The refusal codes.
const (
	UnknownWorkflow RefusalCode = "unknown_workflow" // no such workflow is registered
	BadInput        RefusalCode = "bad_input"        // a field cannot be stored or decoded
	KeyConflict     RefusalCode = "key_conflict"     // the key names a run with another input
	LimitReached    RefusalCode = "limit"            // a field is larger than it may be
	TenantsFull     RefusalCode = "tenants_full"     // no room for another tenant; Config.TenantLimit refuses nothing
	Overloaded      RefusalCode = "overloaded"       // too many triggers wait for this pod: try again later
	Stopping        RefusalCode = "stopping"         // the pod stops: another one takes it
	Unavailable     RefusalCode = "unavailable"      // the database does not answer: trigger again under the same key, or send again with the same id

	UnknownSignal RefusalCode = "unknown_signal" // of a signal: no step of the run waits for signals of this name
	RunNotFound   RefusalCode = "run_not_found"  // of a signal: the tenant has no such run
	RunEnded      RefusalCode = "run_ended"      // of a signal: nothing can take it any more
	InboxFull     RefusalCode = "inbox_full"     // of a signal: the run has as many signals that no step has taken as it may
)

// Error implements error.
func (e *TriggerError) Error() string {
	text := fmt.Sprintf("trigger refused (%s)", e.Code)
	if e.Field != "" {
		text += ": " + e.Field
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	if e.Remedy != "" {
		text += ": " + e.Remedy
	}
	return text
}

// Unwrap makes the error match ErrRefused, ErrKeyConflict for that code,
// ErrUnavailable for that code, and its cause.
func (e *TriggerError) Unwrap() []error {
	errs := []error{ErrRefused}
	if e.Code == KeyConflict {
		errs = append(errs, ErrKeyConflict)
	}
	if e.Code == Unavailable {
		errs = append(errs, ErrUnavailable)
	}
	if e.cause != nil {
		errs = append(errs, e.cause)
	}
	return errs
}
