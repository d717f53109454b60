package troupe

import (
	"fmt"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// StepRef refers to a declared step whose function returns T. It is a parent
// that must complete; see [Maybe] and [Settled] for others.
type StepRef[T any] struct{ at place }

// MaybeRef is what [Maybe] returns.
type MaybeRef[T any] struct{ at place }

// SettledRef is what [Settled] returns.
type SettledRef[T any] struct{ at place }

// SleepRef refers to a declared [Sleep] or [SleepUntil]. A sleep has no
// output, so only [After] takes it, also in Maybe or Settled.
type SleepRef struct{ at place }

// InputRef refers to the input of the run; see [Builder.Input].
type InputRef[T any] struct{ at place }

// Parent is what a step takes for a parameter of type T: StepRef[T] for a T,
// MaybeRef[T] for an [Opt][T], SettledRef[T] for an [Outcome][T]. It is
// implemented by these types only.
type Parent[T any] interface {
	Dependency
	read(codec Codec, from parentOutcome) (T, error)
}

// Dependency is what [After] takes: a StepRef, SleepRef, MaybeRef or
// SettledRef.
type Dependency interface{ link() link }

// Ref is what [Maybe] and [Settled] take: a StepRef or a SleepRef.
type Ref[T any] interface {
	Dependency
	refersTo(*T)
}

// Source is what a decision looks at: the output of a step (StepRef) or the
// run's input (InputRef).
type Source[T any] interface{ looksAt(*T) place }

// slept is the output type of sleeps. No other package can name it, so a sleep
// cannot be the parent of a parameter.
type slept struct{}

// link is one end of an edge.
type link struct {
	at   place
	kind workflow.EdgeKind
}

// Maybe holds a parent that may be skipped: the step gets an [Opt] and runs
// also if the parent was skipped, unless all its parents were. It is how
// branches merge.
func Maybe[T any](ref Ref[T]) MaybeRef[T] { return MaybeRef[T]{at: placeOf(ref)} }

// Settled holds a parent that may end in any way: the step gets an [Outcome]
// and runs even if the parent failed or was canceled. A failure of a step all
// of whose children hold it by Settled is handled: it does not fail the run.
func Settled[T any](ref Ref[T]) SettledRef[T] { return SettledRef[T]{at: placeOf(ref)} }

// placeOf returns the empty place for a nil ref, which is reported where it is
// used.
func placeOf[T any](ref Ref[T]) place {
	if ref == nil {
		return place{}
	}
	return ref.link().at
}

func (r StepRef[T]) link() link    { return link{r.at, workflow.Plain} }
func (r SleepRef) link() link      { return link{r.at, workflow.Plain} }
func (r MaybeRef[T]) link() link   { return link{r.at, workflow.Maybe} }
func (r SettledRef[T]) link() link { return link{r.at, workflow.Settled} }

func (StepRef[T]) refersTo(*T)   {}
func (SleepRef) refersTo(*slept) {}

func (r StepRef[T]) looksAt(*T) place  { return r.at }
func (r InputRef[T]) looksAt(*T) place { return r.at }

func (r StepRef[T]) read(codec Codec, from parentOutcome) (T, error) {
	if from.State != lifecycle.Completed {
		var zero T
		return zero, fmt.Errorf("parent %q is %v: want completed", from.Step, from.State)
	}
	return decodeOutput[T](codec, from, r.at)
}

func (r MaybeRef[T]) read(codec Codec, from parentOutcome) (Opt[T], error) {
	if from.State == lifecycle.Skipped {
		return None[T](), nil
	}
	value, err := StepRef[T](r).read(codec, from)
	return Some(value), err
}

func (r SettledRef[T]) read(codec Codec, from parentOutcome) (Outcome[T], error) {
	switch from.State { //nolint:exhaustive // every other state is not an ending
	case lifecycle.Skipped:
		return Outcome[T]{state: from.State, err: ErrStepSkipped}, nil
	case lifecycle.Canceled:
		return Outcome[T]{state: from.State, err: ErrStepCanceled}, nil
	case lifecycle.Failed:
		return Outcome[T]{state: from.State, err: &StepError{Step: from.Step, Class: from.Class, Text: from.Error}}, nil
	}
	value, err := StepRef[T](r).read(codec, from)
	return Outcome[T]{state: lifecycle.Completed, value: value}, err
}
