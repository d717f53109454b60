package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// Errors whose chains have no end, or no good one.
type (
	tailError   struct{ text string }    // wraps itself
	memberError struct{ others []error } // wraps others and, twice, itself
	brokenError struct{ error }          // cannot say what it wraps
	likeError   struct{ of error }       // says by its own methods what it is
)

func (e *tailError) Error() string     { return e.text }
func (e *tailError) Unwrap() error     { return e }
func (e *memberError) Error() string   { return "member of itself" }
func (e *memberError) Unwrap() []error { return append([]error{e, nil, e}, e.others...) }
func (brokenError) Unwrap() error      { panic("no tail") }
func (likeError) Error() string        { return "likeness" }
func (e likeError) Is(t error) bool    { return errors.Is(e.of, t) }
func (e likeError) As(t any) bool      { return errors.As(e.of, t) }

// deep wraps err n times.
func deep(err error, n int) error {
	for range n {
		err = fmt.Errorf("%w", err)
	}
	return err
}

func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	path := &fs.PathError{Op: "open", Path: "a", Err: io.EOF}
	for name, test := range map[string]struct {
		err       error
		shell     bool
		is, as    bool
		final     bool
		wantClass string
	}{
		"plain":                      {err: io.EOF, is: true},
		"wrapped":                    {err: deep(path, 50), is: true, as: true},
		"final in a class":           {err: WithClass("a", Terminal(io.EOF)), is: true, final: true, wantClass: "a"},
		"by its own methods":         {err: likeError{WithClass("a", Terminal(path))}, is: true, as: true, final: true, wantClass: "a"},
		"wraps itself":               {err: &tailError{"loop"}, shell: true},
		"around what wraps itself":   {err: WithClass("a", Terminal(&tailError{"loop"})), shell: true, final: true, wantClass: "a"},
		"beside what wraps itself":   {err: errors.Join(&tailError{"loop"}, Terminal(path)), shell: true, is: true, as: true, final: true},
		"member of itself":           {err: &memberError{}, shell: true},
		"member of itself, and more": {err: &memberError{[]error{path}}, shell: true, is: true, as: true},
		"too deep":                   {err: WithClass("a", deep(path, chainDepthMax)), shell: true, wantClass: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := bounded(test.err)
			_, shell := err.(boundedError) //nolint:errorlint // the shell itself
			require.Equal(t, test.shell, shell)
			require.Equal(t, test.is, errors.Is(err, io.EOF))
			var found *fs.PathError
			require.Equal(t, test.as, errors.As(fmt.Errorf("more: %w", err), &found))
			require.Equal(t, test.as, found != nil)
			require.Equal(t, test.err.Error(), err.Error())
			for _, e := range []error{err, test.err} {
				require.Equal(t, test.final, IsTerminal(e))
				require.Equal(t, test.wantClass, ErrorClass(e))
			}
		})
	}
	require.NoError(t, bounded(nil))
	require.NotErrorIs(t, bounded(&tailError{"loop"}), nil)
	require.Equal(t, "error of type actors.oddError, whose Error method panicked: no text",
		boundedError{err: oddError{func() string { panic("no text") }}}.Error())
}

// B11: an error that wraps itself is classified by what is found before it turns
// round; the run ends, and the pod goes on.
func TestB11ErrorsThatWrapThemselves(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"tail": WithClass("loop", &tailError{"loop"}), "member": WithClass("loop", &memberError{}), "broken": WithClass("loop", brokenError{io.EOF}),
	} {
		for _, inTx := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s in a transaction: %v", name, inTx), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(t *testing.T, w *world) {
					seen := 0
					w.register(storetest.Single(), func(context.Context, Inputs) (Output, error) { return Output{}, err }, func(f *StepFunction) {
						f.Options.InTx, f.Options.Retry = inTx, workflow.RetryPolicy{Attempts: 2}
						f.RetryIf = func(err error) bool { seen++; return !errors.Is(err, io.ErrUnexpectedEOF) }
					})
					p := w.start(Config{Slots: 1})
					row := w.ended(w.trigger(p, "single"))
					require.Equal(t, lifecycle.Failed, row.State)
					if name == "broken" {
						require.Equal(t, classPanic, row.Class)
						require.Contains(t, row.Error, "no tail")
						require.Zero(t, seen)
					} else {
						require.Equal(t, "loop", row.Class)
						require.Equal(t, err.Error(), row.Error)
						require.Equal(t, 2, seen)
					}
					require.NoError(t, p.Err())
				})
			})
		}
	}
}

// B11: an error that claims to be every error is none of the engine's: it costs an
// attempt, and is retried as its step says.
func TestB11ErrorsThatClaimToBeEveryError(t *testing.T) {
	t.Parallel()
	for _, inTx := range []bool{false, true} {
		inBubble(t, func(t *testing.T, w *world) {
			calls := 0
			w.register(storetest.Single(), func(context.Context, Inputs) (Output, error) {
				calls++
				return Output{}, fmt.Errorf("wrapped: %w", liarError{})
			}, func(f *StepFunction) {
				f.Options.InTx, f.Options.Retry = inTx, workflow.RetryPolicy{Attempts: 2}
			})
			row := w.ended(w.trigger(w.start(Config{Slots: 1}), "single"))
			require.Equal(t, lifecycle.Failed, row.State)
			require.Equal(t, "wrapped: no", row.Error)
			require.Equal(t, 2, calls)
		})
	}
}

type liarError struct{}

func (liarError) Error() string { return "no" }
func (liarError) Is(error) bool { return true }
func (liarError) As(any) bool   { return true }

// A codec's error about an input that came as a message is no other thing.
func TestRefusalsOfErrorsThatWrapThemselves(t *testing.T) {
	t.Parallel()
	for _, err := range []error{&tailError{"loop"}, &memberError{}, brokenError{io.EOF}, nasty{}} {
		look := boundedEvaluate(func(string, []byte) (workflow.Hash, []persistence.EdgeResult, error) {
			return workflow.Hash{}, nil, err
		})
		_, _, got := look("single", nil)
		require.Error(t, got)
		require.NotErrorIs(t, got, ErrUnknownWorkflow)
		require.NotEmpty(t, got.Error())
	}
	require.Nil(t, boundedEvaluate(nil))
}
