package actors

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// attemptEnded is what the goroutine of the step function delivers.
type attemptEnded struct {
	output   Output
	err      error
	finished bool                  // neither panic nor Goexit
	recorded *persistence.Recorded // InTx: the transition is stored already
}

// deliverOnce runs an attempt and delivers its end exactly once, also after a
// panic and after runtime.Goexit.
func deliverOnce(deliver func(any), attempt func() *attemptEnded) {
	end := &attemptEnded{err: errGoexit}
	defer func() {
		if value := recover(); value != nil {
			end = &attemptEnded{err: &panicError{value: value, stack: string(debug.Stack())}}
		}
		deliver(end)
	}()
	end = attempt()
}

func plainAttempt(ctx context.Context, call func(context.Context, Inputs) (Output, error), inputs Inputs) *attemptEnded {
	output, err := call(ctx, inputs)
	return &attemptEnded{output: output, err: err, finished: true}
}

// txAttempt executes a step inside the transaction that records it.
func txAttempt(
	ctx context.Context, rt *runtime, record persistence.Record, key taskKey, attempt *attemptState,
	call func(context.Context, Inputs) (Output, error), inputs Inputs,
) *attemptEnded {
	var failed error
	recorded, err := rt.ports.Store.RecordInTx(ctx, record, func(ctx context.Context, tx any) (persistence.Transition, error) {
		attempt.setTx(tx)
		defer attempt.setTx(nil)
		output, err := call(WithAttempt(ctx, attempt), inputs)
		if err == nil && len(output.Payload) > rt.config.PayloadLimit {
			err = tooLarge(len(output.Payload), rt.config.PayloadLimit)
		}
		if failed = err; err != nil {
			return persistence.Transition{}, err
		}
		return persistence.Transition{
			Task: key.task, Epoch: key.epoch, Report: lifecycle.Succeeded, Output: output.Payload, Edges: output.Edges,
		}, nil
	})
	switch {
	case failed != nil:
		return &attemptEnded{err: failed, finished: true}
	case err != nil:
		return &attemptEnded{err: &recordError{err}, finished: true}
	}
	return answeredTx(&recorded)
}

// answeredTx is the end of an attempt whose transaction the store has answered.
// What it refused or could not lock was not kept, and nobody else will report
// it: unreported the task would be lost, time after time.
func answeredTx(recorded *persistence.Recorded) *attemptEnded {
	switch answer := recorded.Answers[0]; answer.Result {
	case lifecycle.BadRow:
		return &attemptEnded{err: Terminal(WithClass(persistence.ClassBadRow, answer.Err)), finished: true}
	case lifecycle.Busy:
		return &attemptEnded{err: &recordError{errRunBusy}, finished: true}
	case lifecycle.Moved, lifecycle.AlreadyYours, lifecycle.Stale, lifecycle.Illegal:
	}
	return &attemptEnded{finished: true, recorded: recorded}
}

// errRunBusy hands an attempt back whose run is locked by somebody else.
var errRunBusy = errors.New("the run is locked")

// recordError is a failure of the store, not of the step: whether the
// transaction was committed may be unknown.
type recordError struct{ error }

func (e *recordError) Unwrap() error { return e.error }
