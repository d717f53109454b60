package actors

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/troupe-dev/troupe/internal/panics"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Bounds of a walk through what an error wraps. Nobody wraps as much on
// purpose, and an error that wraps itself has no end: errors.As would turn
// round for ever, or overflow the stack, which ends the process.
const (
	chainDepthMax = 100
	chainNodesMax = 1000
)

// bounded returns an error of the embedder's as it is if a walk through what it
// wraps comes to an end, and nothing on the way claims to be every error; otherwise in a
// shell: whoever looks at it with errors.Is or errors.As, in whatever room, is safe then.
func bounded(err error) error {
	says := false
	w := chainWalk{left: chainNodesMax, match: func(err error) bool {
		says = says || saysAnything(err)
		return false
	}}
	if w.visit(err, 0); w.cut || says {
		return boundedError{err: err, deaf: says}
	}
	return err
}

// errNobodys is an error that nobody has but whoever asks for it here.
var errNobodys = errors.New("nobody's")

// nobodys is a type of error that nobody has.
type nobodys struct{ error }

// saysAnything reports whether an error's own Is or As says yes to whatever it is asked.
// It would pass for each of the engine's errors, one that costs no attempt among them.
func saysAnything(err error) bool {
	if own, ok := err.(interface{ Is(target error) bool }); ok && own.Is(errNobodys) {
		return true
	}
	var place nobodys
	own, ok := err.(interface{ As(target any) bool })
	return ok && own.As(&place)
}

// boundedError is an error that wraps another one without showing it: what it
// wraps is looked at within the bounds only. What lies beyond is as if it were
// not there.
type boundedError struct {
	err  error
	deaf bool // no Is and no As of what it wraps is asked
}

// Error implements error.
func (e boundedError) Error() string { return errorText(e.err) }

// Is is errors.Is within the bounds.
func (e boundedError) Is(target error) bool {
	same := target == nil || reflect.TypeOf(target).Comparable()
	return e.walk(func(err error) bool {
		if same && err == target {
			return true
		}
		own, ok := err.(interface{ Is(target error) bool })
		return ok && !e.deaf && own.Is(target)
	})
}

// As is errors.As within the bounds; target points to something.
func (e boundedError) As(target any) bool {
	place := reflect.ValueOf(target).Elem()
	return e.walk(func(err error) bool {
		if reflect.TypeOf(err).AssignableTo(place.Type()) {
			place.Set(reflect.ValueOf(err))
			return true
		}
		own, ok := err.(interface{ As(target any) bool })
		return ok && !e.deaf && own.As(target)
	})
}

func (e boundedError) walk(match func(error) bool) bool {
	w := chainWalk{left: chainNodesMax, match: match}
	return w.visit(e.err, 0)
}

// chainWalk looks for an error that matches in what another one wraps, in the
// order of errors.Is. A panic of the embedder's methods passes through it, as it
// does through that.
type chainWalk struct {
	left  int  // nodes that may still be visited
	cut   bool // the bounds hid something
	match func(error) bool
}

func (w *chainWalk) visit(err error, depth int) bool {
	switch {
	case err == nil:
		return false
	case depth == chainDepthMax || w.left == 0:
		w.cut = true
		return false
	}
	w.left--
	return w.match(err) || slices.ContainsFunc(below(err), func(err error) bool {
		return w.visit(err, depth+1)
	})
}

// below is what err wraps itself.
func below(err error) []error {
	switch err := err.(type) { //nolint:errorlint // one link of the chain
	case interface{ Unwrap() error }:
		return []error{err.Unwrap()}
	case interface{ Unwrap() []error }:
		return err.Unwrap()
	}
	return nil
}

// boundedFunctions are step functions that return bounded errors.
func boundedFunctions(functions map[int32]StepFunction) map[int32]StepFunction {
	all := make(map[int32]StepFunction, len(functions))
	for number, f := range functions {
		call, replay := f.Call, f.Replay
		f.Call = func(ctx context.Context, in Inputs) (Output, error) {
			output, err := call(ctx, in)
			return output, bounded(err)
		}
		if replay != nil {
			f.Replay = func(payload []byte) (Output, error) {
				output, err := replay(payload)
				return output, bounded(err)
			}
		}
		all[number] = f
	}
	return all
}

// boundedEvaluate does the same for what the embedder's codec says of inputs. It
// is called by an actor: of an error that is not ours only the text is left, and
// a panic is one.
func boundedEvaluate(evaluate Evaluate) Evaluate {
	if evaluate == nil {
		return nil
	}
	return func(name string, input []byte) (hash workflow.Hash, edges []persistence.EdgeResult, err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("panic: %s", panics.Text(r))
			}
		}()
		hash, edges, err = evaluate(name, input)
		if err = bounded(err); err != nil && !errors.Is(err, ErrUnknownWorkflow) {
			err = errors.New(errorText(err))
		}
		return hash, edges, err
	}
}
