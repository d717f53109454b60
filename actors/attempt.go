package actors

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// attemptEnded is what the goroutine of the step function delivers: an output,
// unless one of the others is set.
type attemptEnded struct {
	output   Output
	failed   *failure
	handBack error                 // why the database did not let it be recorded; what became of it may be unknown
	recorded *persistence.Recorded // InTx: the transition is stored already
	txEnded  bool                  // InTx: the function has ended its transaction
}

// deliverOnce runs an attempt and delivers its end exactly once, also after a
// panic and after runtime.Goexit, even while a panic is being looked at.
func deliverOnce(deliver func(any), attempt func() *attemptEnded) {
	end := &attemptEnded{failed: &failure{class: classPanic, text: errGoexit.Error(), retry: true}}
	defer func() { deliver(end) }()
	defer func() {
		if value := recover(); value != nil {
			end = panicked(value)
		}
	}()
	end = attempt()
}

// plainAttempt calls the step function, unless the pod has let go of the task
// before it came to that: nothing has happened then, and nothing shall.
func plainAttempt(ctx context.Context, f *StepFunction, inputs Inputs) *attemptEnded {
	if cause := context.Cause(ctx); errors.Is(cause, ErrLeaseLost) || errors.Is(cause, ErrStopping) {
		return &attemptEnded{failed: failureOf(cause, nil)}
	}
	output, err := f.Call(ctx, inputs)
	switch {
	case errors.Is(err, ErrInputsMissing):
		return &attemptEnded{handBack: err}
	case err != nil:
		return &attemptEnded{failed: failureOf(err, f.RetryIf)}
	}
	return &attemptEnded{output: output}
}

// ErrInputsMissing is returned by a StepFunction that was given fewer inputs than
// its step has: the database has lost the definition for now. The task is handed
// back.
var ErrInputsMissing = errors.New("the database knows fewer parents of this step than it has: it lost the definition, which is registered again with the next trigger or start")

// keptAttempt completes a step with the output that an earlier run has of it:
// only what hangs on the output is decided anew.
func keptAttempt(f *StepFunction, payload []byte) *attemptEnded {
	if f.Replay == nil {
		return &attemptEnded{output: Output{Payload: payload}}
	}
	output, err := f.Replay(payload)
	if err != nil {
		return &attemptEnded{failed: failureOf(err, f.RetryIf)}
	}
	return &attemptEnded{output: output}
}

// txMargin is how much longer than its attempt the transaction of a step may be
// idle: the attempt's own timeout comes first.
const txMargin = time.Second

// txAttempt executes a step inside the transaction that records it.
func txAttempt(
	ctx context.Context, rt *runtime, record persistence.Record, key taskKey, attempt *attemptState,
	f *StepFunction, inputs Inputs,
) *attemptEnded {
	called, broken := false, false
	defer func() {
		if called && !broken && !errors.Is(context.Cause(ctx), ErrAttemptTimeout) { // the latter is judged
			rt.broken.forget(key.task)
		}
	}()
	asked := rt.now()
	answered := rt.unbegun.asks(asked)
	defer answered()
	recorded, err := rt.ports.Store.RecordInTx(ctx, record, func(ctx context.Context, tx any) (persistence.Transition, error) {
		called = true
		answered()
		rt.unbegun.begun()
		defer rt.unbegun.ended()
		attempt.begun()
		attempt.setTx(tx)
		defer attempt.setTx(nil)
		output, err := f.Call(WithAttempt(ctx, attempt), inputs)
		if err == nil && len(output.Payload) > rt.config.PayloadLimit {
			err = tooLarge("output", len(output.Payload), rt.config.PayloadLimit)
		}
		if err != nil {
			return persistence.Transition{}, &stepError{err}
		}
		return persistence.Transition{
			Task: key.task, Epoch: key.epoch, Report: lifecycle.Succeeded, Output: output.Payload, Edges: output.Edges,
		}, nil
	})
	var own *stepError
	switch {
	case err == nil:
		if !called {
			return &attemptEnded{handBack: errHeld}
		}
		return answeredTx(&recorded)
	case errors.Is(err, ErrInputsMissing):
		return &attemptEnded{handBack: err}
	case errors.Is(err, persistence.ErrTxEnded):
		return endedByStep(err)
	case errors.As(err, &own):
		return &attemptEnded{failed: failureOf(own.error, f.RetryIf)}
	case errors.Is(err, persistence.ErrTxBroken):
		broken = true
		if n := rt.broken.note(key.task, rt.now(), rt.boundary.lastAway()); n > brokenMax { // it is the function that breaks it, or takes longer than the server lets it
			return &attemptEnded{failed: failureOf(WithClass(classTxBroken, fmt.Errorf("%d times in a row: %w", n, err)), nil)}
		}
		return &attemptEnded{handBack: err}
	case errors.Is(err, persistence.ErrTxNotBegun):
		if ctx.Err() == nil { // else the pod has let go of the task
			rt.unbegun.note(asked, rt.now(), rt.outage(), err)
		}
		return &attemptEnded{handBack: err}
	case errors.Is(err, persistence.ErrUnavailable), errors.Is(err, persistence.ErrPodDead):
		return &attemptEnded{handBack: err}
	case errors.Is(err, persistence.ErrConflict): // again and again: the store has retried it
		return &attemptEnded{failed: failureOf(WithClass(classConflict, err), nil)}
	}
	return &attemptEnded{failed: failureOf(err, nil)} // as when the function spoils its transaction
}

var (
	// errRunBusy: somebody holds the run's lock for too long.
	errRunBusy = errors.New("the run is locked")
	// errHeld: it was known before the step function was called that somebody does.
	errHeld = errors.New("the run, or what gives its tenant places, is locked: the step was not executed")
)

// endedByStep is the end of an attempt whose function has ended its transaction.
func endedByStep(err error) *attemptEnded {
	return &attemptEnded{failed: failureOf(Terminal(WithClass(classTxBroken, err)), nil), txEnded: true}
}

// stepError tells an error of the step function from one of the store.
type stepError struct{ error }

func (e *stepError) Unwrap() error { return e.error }

// answeredTx is the end of an attempt whose transaction the store has answered.
// What it refused or could not lock was not kept, and nobody else will report
// it: unreported the task would be lost, time after time.
func answeredTx(recorded *persistence.Recorded) *attemptEnded {
	switch answer := recorded.Answers[0]; answer.Result {
	case lifecycle.BadRow:
		return &attemptEnded{failed: failureOf(Terminal(WithClass(persistence.ClassBadRow, answer.Err)), nil)}
	case lifecycle.Busy:
		return &attemptEnded{handBack: errRunBusy}
	case lifecycle.Moved, lifecycle.AlreadyYours, lifecycle.Stale, lifecycle.Illegal:
	}
	return &attemptEnded{recorded: recorded}
}

func (a *run) about() TaskInfo {
	t := a.task
	key := a.key.task.Run.String() + "/" + t.GetStepName()
	idempotent := key
	if first := runOf(t.GetKeyRun()); !first.IsZero() {
		idempotent = first.String() + "/" + t.GetStepName()
	}
	return TaskInfo{
		Run: a.key.task.Run, Workflow: t.GetWorkflow(), Tenant: t.GetTenant(), Step: t.GetStepName(),
		Attempt: int(t.GetAttempt()), MaxAttempts: max(a.function.Options.Retry.Attempts, 1),
		AttemptID: key + "/" + strconv.FormatInt(a.key.epoch, 10), IdempotencyKey: idempotent,
		Labels: t.GetLabels(), TraceContext: t.GetTraceContext(), LastProgress: t.GetLastProgress(),
	}
}

func causeOf(c messages.EndCause) error {
	switch c {
	case messages.EndCause_END_CAUSE_CANCELED:
		return ErrCanceled
	case messages.EndCause_END_CAUSE_LEASE_LOST:
		return ErrLeaseLost
	case messages.EndCause_END_CAUSE_STOPPING:
		return ErrStopping
	case messages.EndCause_END_CAUSE_UNSPECIFIED:
	}
	return nil
}
