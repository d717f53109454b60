package actors

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/internal/panics"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// Messages of an attempt to its run actor, beside attemptEnded.
type (
	attemptBegun struct{} // the transaction of an InTx step is open
	attemptBeat  struct{}
)

// attemptEnded is delivered by the goroutine of the step function: an output, unless
// another field is set.
type attemptEnded struct {
	output   Output
	failed   *failure
	handBack error                 // why it was not recorded, or why that is unknown
	recorded *persistence.Recorded // InTx: the transition is stored already
	txEnded  bool                  // InTx: the function has ended its transaction
}

// deliverOnce runs an attempt and delivers its end exactly once, also after a panic and
// after runtime.Goexit, even during a panic.
func deliverOnce(deliver func(any), attempt func() *attemptEnded) {
	var end *attemptEnded
	defer func() {
		if end == nil {
			end = &attemptEnded{failed: &failure{class: classPanic, text: errGoexit.Error(), retry: true}}
		}
		deliver(end)
	}()
	defer func() {
		if value := recover(); value != nil {
			end = panicked(value)
		}
	}()
	end = attempt()
}

// plainAttempt calls the step function, unless the pod has lost or released the task
// before the call.
func plainAttempt(ctx context.Context, f *StepFunction, inputs Inputs) *attemptEnded {
	if cause := context.Cause(ctx); errors.Is(cause, ErrLeaseLost) || errors.Is(cause, ErrStopping) {
		return &attemptEnded{failed: failureOf(cause, nil)}
	}
	output, err := callWrapped(ctx, f, inputs)
	switch {
	case errors.Is(err, ErrInputsMissing):
		return &attemptEnded{handBack: err}
	case err != nil:
		return &attemptEnded{failed: failureOf(err, f.RetryIf)}
	}
	return &attemptEnded{output: output}
}

// keptAttempt completes a step with its output of an earlier run. Conditions and sleep
// instants are decided anew.
func keptAttempt(ctx context.Context, f *StepFunction, payload []byte) *attemptEnded {
	if f.Replay == nil {
		return &attemptEnded{output: Output{Payload: payload}}
	}
	output, err := f.Replay(ctx, payload)
	if err != nil {
		return &attemptEnded{failed: failureOf(err, f.RetryIf)}
	}
	return &attemptEnded{output: output}
}

// txMargin is how much longer than its attempt the transaction of a step may be idle, so
// that the timeout of the attempt comes first.
const txMargin = time.Second

// txAttempt executes a step inside the transaction that records it.
func txAttempt(journal persistence.Journal, record persistence.Record, attempt *attemptState, inputs Inputs) *attemptEnded {
	rt, ctx, key, f := attempt.rt, attempt.ctx, attempt.key, attempt.function
	called, broken := false, false
	defer func() {
		if called && !broken && !errors.Is(context.Cause(ctx), ErrAttemptTimeout) { // a timeout is judged below
			rt.vitals.with(func(v *vitals.Vitals) { v.Tx.Held(key.task) })
		}
	}()
	number, asked := rt.numbers.next(), rt.now()
	rt.vitals.with(func(v *vitals.Vitals) { v.Tx.Waits(number, asked) })
	defer rt.vitals.with(func(v *vitals.Vitals) { v.Tx.WaitsNoLonger(number) })
	recorded, err := journal.RecordInTx(ctx, record, func(ctx context.Context, tx any) (persistence.Transition, error) {
		called = true
		rt.vitals.with(func(v *vitals.Vitals) {
			v.Tx.WaitsNoLonger(number)
			v.Tx.Close()
		})
		defer rt.vitals.with(func(v *vitals.Vitals) { v.Tx.Close() })
		attempt.begun()
		attempt.setTx(tx)
		defer attempt.setTx(nil)
		output, err := callWrapped(WithAttempt(ctx, attempt), f, inputs)
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
		n := 0
		rt.vitals.with(func(v *vitals.Vitals) { n = v.Tx.Broke(key.task, rt.now(), v.LastAway()) })
		if n > vitals.TaskFailuresMax { // the function breaks it, or exceeds a timeout of the server
			return &attemptEnded{failed: failureOf(WithClass(classTxBroken, fmt.Errorf("%d times in a row: %w", n, err)), nil)}
		}
		return &attemptEnded{handBack: err}
	case errors.Is(err, persistence.ErrTxNotBegun):
		if ctx.Err() == nil { // else the pod has let go of the task
			rt.vitals.with(func(v *vitals.Vitals) { v.BeginFailed(asked, rt.now(), err) })
		}
		return &attemptEnded{handBack: err}
	case errors.Is(err, persistence.ErrUnavailable), errors.Is(err, persistence.ErrPodDead):
		return &attemptEnded{handBack: err}
	case errors.Is(err, persistence.ErrConflict): // again and again: the store has retried it
		return &attemptEnded{failed: failureOf(WithClass(classConflict, err), nil)}
	}
	return &attemptEnded{failed: failureOf(err, nil)} // for example a transaction that the function has aborted
}

var (
	// errRunBusy: another session locks the run for too long.
	errRunBusy = errors.New("the run is locked")
	// errHeld: the lock was known before the step function was called.
	errHeld = errors.New("the run, or its tenant's counter, is locked: the step was not executed")
)

// endedByStep is the end of an attempt whose function has ended its transaction.
func endedByStep(err error) *attemptEnded {
	return &attemptEnded{failed: failureOf(Terminal(WithClass(classTxBroken, err)), nil), txEnded: true}
}

// stepError tells an error of the step function from one of the store.
type stepError struct{ error }

func (e *stepError) Unwrap() error { return e.error }

// answeredTx is the end of an attempt whose transaction was answered. A refused or blocked
// transaction was not kept, and no other actor reports it: without a report the task would
// be lost each time.
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

// panicked is the end of an attempt by a panic, while the stack is still there. A panic
// with ErrTxEnded comes from the store: the function has ended its transaction.
func panicked(value any) *attemptEnded {
	if value == any(persistence.ErrTxEnded) {
		return endedByStep(persistence.ErrTxEnded)
	}
	return &attemptEnded{failed: panicOf(value, panics.Frames())}
}

// attemptState is an attempt as its step function sees it, shared between the
// goroutine of the function and the run actor.
type attemptState struct {
	rt       *runtime
	to       *PID
	key      taskKey
	task     *messages.StartTask
	function *StepFunction
	ctx      context.Context //nolint:containedctx // of the attempt
	inflight *function       // while the function runs
	permit   *permit         // to read inputs; nil: the grant carried all of them

	mu       sync.Mutex
	tx       any
	progress []byte
	told     bool // the run actor was told to take and has not
}

var _ Attempt = (*attemptState)(nil)

// Info implements Attempt.
func (a *attemptState) Info() TaskInfo {
	t := a.task
	id := append(make([]byte, 0, 64+len(t.GetStepName())), a.key.task.Run.String()...)
	id = append(append(id, '/'), t.GetStepName()...)
	length := len(id)
	attempt := string(strconv.AppendInt(append(id, '/'), a.key.epoch, 10))
	idempotent := attempt[:length]
	if first := runOf(t.GetKeyRun()); !first.IsZero() {
		idempotent = first.String() + "/" + t.GetStepName()
	}
	item := -1
	if a.function.isElement(t) {
		item = int(lifecycle.ElementOf(t.GetStepName()))
	}
	return TaskInfo{
		Run: a.key.task.Run, Workflow: t.GetWorkflow(), Tenant: t.GetTenant(), Step: t.GetStepName(), Item: item,
		Attempt: int(t.GetAttempt()), MaxAttempts: max(a.function.Options.Retry.Attempts, 1),
		AttemptID: attempt, IdempotencyKey: idempotent,
		Labels: t.GetLabels(), TraceContext: t.GetTraceContext(), LastProgress: t.GetLastProgress(),
		QueuedAt: instant(t.GetQueuedAt()), StartedAt: instant(t.GetStartedAt()),
	}
}

// Heartbeat implements Attempt. However often it is called, at most one
// message to the run actor is under way.
func (a *attemptState) Heartbeat(progress []byte) error {
	if limit := a.rt.config.PayloadLimit; len(progress) > limit {
		return tooLarge("progress", len(progress), limit)
	}
	a.mu.Lock()
	if progress != nil {
		a.progress = progress
	}
	tell := !a.told
	a.told = true
	a.mu.Unlock()
	if tell {
		a.rt.arriveLater(a.to, &attemptBeat{})
	}
	return context.Cause(a.ctx)
}

// Tx implements Attempt.
func (a *attemptState) Tx() any {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tx
}

// Waits implements Attempt.
func (a *attemptState) Waits(yes bool) { a.rt.payloads.wait(a.permit, yes) }

// begun tells the run actor that the transaction of the step is open.
func (a *attemptState) begun() { a.rt.arrive(a.to, &attemptBegun{}) }

func (a *attemptState) setTx(tx any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tx = tx
}

// take returns the last progress; nil: none.
func (a *attemptState) take() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = false
	return a.progress
}

// execute runs the attempt on a goroutine of the executor, delivers its end, and gives back
// what its function used.
func (a *attemptState) execute(deliver func(any), attempt func() *attemptEnded) {
	defer a.returned()
	deliverOnce(deliver, attempt)
}

// returned notes that the step function has returned.
func (a *attemptState) returned() {
	if a.permit != nil {
		a.rt.payloads.release(a.permit)
		a.rt.measurePayloads()
	}
	if a.rt.inflight.end(a.inflight) {
		a.rt.arrive(a.rt.addresses.runs, &functionReturned{name: a.inflight.name})
	}
}
