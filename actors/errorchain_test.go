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
	ownTail    struct{ text string }    // wraps itself
	ownMember  struct{ others []error } // wraps others and, twice, itself
	brokenTail struct{ error }          // cannot say what it wraps
	oddMatch   struct{}                 // cannot say what it is
	likeness   struct{ of error }       // says by its own methods what it is
)

func (e *ownTail) Error() string     { return e.text }
func (e *ownTail) Unwrap() error     { return e }
func (e *ownMember) Error() string   { return "member of itself" }
func (e *ownMember) Unwrap() []error { return append([]error{e, nil, e}, e.others...) }
func (brokenTail) Unwrap() error     { panic("no tail") }
func (oddMatch) Error() string       { return "odd" }
func (oddMatch) Is(error) bool       { panic("is") }
func (oddMatch) As(any) bool         { panic("as") }
func (likeness) Error() string       { return "likeness" }
func (e likeness) Is(t error) bool   { return errors.Is(e.of, t) }
func (e likeness) As(t any) bool     { return errors.As(e.of, t) }

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
		"by its own methods":         {err: likeness{WithClass("a", Terminal(path))}, is: true, as: true, final: true, wantClass: "a"},
		"wraps itself":               {err: &ownTail{"loop"}, shell: true},
		"around what wraps itself":   {err: WithClass("a", Terminal(&ownTail{"loop"})), shell: true, final: true, wantClass: "a"},
		"beside what wraps itself":   {err: errors.Join(&ownTail{"loop"}, Terminal(path)), shell: true, is: true, as: true, final: true},
		"member of itself":           {err: &ownMember{}, shell: true},
		"member of itself, and more": {err: &ownMember{[]error{path}}, shell: true, is: true, as: true},
		"too deep":                   {err: WithClass("a", deep(path, chainDepthMax)), shell: true, wantClass: "a"},
		"cannot unwrap":              {err: errors.Join(brokenTail{io.ErrClosedPipe}, path), shell: true, is: true, as: true},
		"cannot compare":             {err: errors.Join(oddMatch{}, &ownTail{"loop"}, path), shell: true, is: true, as: true},
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
	require.NotErrorIs(t, bounded(&ownTail{"loop"}), nil)
	require.Equal(t, "error of type actors.oddError, whose Error method panicked: no text",
		boundedError{oddError{func() string { panic("no text") }}}.Error())
}

// B11: an error that wraps itself is classified by what is found before it turns
// round; the run ends, and the pod goes on.
func TestB11ErrorsThatWrapThemselves(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"tail": WithClass("loop", &ownTail{"loop"}), "member": WithClass("loop", &ownMember{}), "broken": WithClass("loop", brokenTail{io.EOF}),
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
					require.Equal(t, "loop", row.Class)
					require.Equal(t, err.Error(), row.Error)
					require.Equal(t, 2, seen)
					require.NoError(t, p.Err())
				})
			})
		}
	}
}

// A codec's error about an input that came as a message is no other thing.
func TestRefusalsOfErrorsThatWrapThemselves(t *testing.T) {
	t.Parallel()
	for _, err := range []error{&ownTail{"loop"}, &ownMember{}, oddError{func() string { panic("loop") }}} {
		look := boundedEvaluate(func(string, []byte) (workflow.Hash, []persistence.EdgeResult, error) {
			return workflow.Hash{}, nil, err
		})
		_, _, got := look("single", nil)
		require.NotErrorIs(t, got, ErrUnknownWorkflow)
	}
	require.Nil(t, boundedEvaluate(nil))
}
