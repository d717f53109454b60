package troupe

import (
	"errors"

	"github.com/troupe-dev/troupe/lifecycle"
)

// Opt is the output of a parent that may have been skipped.
type Opt[T any] struct {
	value   T
	present bool
}

// Some returns an Opt that holds value, as from a parent that completed.
func Some[T any](value T) Opt[T] { return Opt[T]{value: value, present: true} }

// None returns an empty Opt, as from a parent that was skipped.
func None[T any]() Opt[T] { return Opt[T]{} }

// Value returns the parent's output, and whether there is one.
func (o Opt[T]) Value() (T, bool) { return o.value, o.present }

// Or returns the parent's output, or fallback if it was skipped.
func (o Opt[T]) Or(fallback T) T {
	if o.present {
		return o.value
	}
	return fallback
}

// Outcome is how a parent ended, whichever way.
type Outcome[T any] struct {
	state State
	value T
	err   error
}

// OutcomeOf returns the outcome that [Outcome.Value] takes apart again, for
// tests of step functions: err is nil, ErrStepSkipped, ErrStepCanceled, or the
// error of a failed step.
func OutcomeOf[T any](value T, err error) Outcome[T] {
	switch {
	case err == nil:
		return Outcome[T]{state: lifecycle.Completed, value: value}
	case errors.Is(err, ErrStepSkipped):
		return Outcome[T]{state: lifecycle.Skipped, err: err}
	case errors.Is(err, ErrStepCanceled):
		return Outcome[T]{state: lifecycle.Canceled, err: err}
	}
	return Outcome[T]{state: lifecycle.Failed, err: err}
}

// Value returns the parent's output if it completed. Otherwise the error is
// [ErrStepSkipped], [ErrStepCanceled] or a [*StepError].
func (o Outcome[T]) Value() (T, error) {
	if o.state == 0 {
		return o.value, ErrStepSkipped
	}
	return o.value, o.err
}

// State returns StateCompleted, StateSkipped, StateFailed or StateCanceled.
func (o Outcome[T]) State() State {
	if o.state == 0 {
		return lifecycle.Skipped
	}
	return o.state
}

// Completed reports whether the parent completed.
func (o Outcome[T]) Completed() bool { return o.state == lifecycle.Completed }
