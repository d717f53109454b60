package actors

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

var errStep, errWrap = errors.New("of the step"), errors.New("of the wrap")

type next = func(context.Context) error

// wrapCase is what a Wrap does, and what becomes of the attempt.
type wrapCase struct {
	wrap  func(ctx context.Context, next next) error
	step  error // of the step function
	want  error
	text  string // of the error
	class string
	calls int
}

func (c *wrapCase) check(t *testing.T) {
	t.Helper()
	calls := 0
	f := &StepFunction{Wrap: c.wrap, Call: func(ctx context.Context, in Inputs) (Output, error) {
		calls++
		require.NotNil(t, AttemptFrom(ctx))
		return Output{Payload: in.Input}, c.step
	}}
	out, err := callWrapped(WithAttempt(t.Context(), &attemptState{}), f, Inputs{Input: []byte("in")})
	require.Equal(t, c.calls, calls)
	if c.want == nil && c.text == "" {
		require.NoError(t, err)
		require.Equal(t, "in", string(out.Payload))
		return
	}
	require.Empty(t, out)
	require.ErrorContains(t, err, c.text)
	if c.want != nil {
		require.ErrorIs(t, err, c.want)
	}
	require.Equal(t, c.class, ErrorClass(err))
	require.Equal(t, IsTerminal(c.step), IsTerminal(err))
}

// TestWrap: what becomes of an attempt follows from what Wrap did with next and from its error.
func TestWrap(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]wrapCase{
		"passes on a success": {wrap: func(ctx context.Context, next next) error { return next(ctx) }, calls: 1},
		"passes on an error": {
			wrap: func(ctx context.Context, next next) error { return next(ctx) },
			step: WithClass("mine", errStep), want: errStep, class: "mine", calls: 1,
		},
		"makes an error of a success": {
			wrap: func(ctx context.Context, next next) error { return errors.Join(next(ctx), errWrap) },
			want: errWrap, calls: 1,
		},
		"makes another error of one": {
			wrap: func(ctx context.Context, next next) error { return fmt.Errorf("%w: %w", errWrap, next(ctx)) },
			step: errStep, want: errWrap, text: "of the wrap: of the step", calls: 1,
		},
		"makes no success of an error": {
			wrap: func(ctx context.Context, next next) error { _ = next(ctx); return nil },
			step: Terminal(WithClass("mine", errStep)), want: errStep, class: "mine", calls: 1,
		},
		"refuses to execute the step": {wrap: func(context.Context, next) error { return errWrap }, want: errWrap},
		"forgets the step": {
			wrap: func(context.Context, next) error { return nil },
			text: "Config.Wrap returned nil and had not called next", class: "wrap",
		},
		"executes the step twice": {
			wrap: func(ctx context.Context, next next) error { return errors.Join(next(ctx), next(ctx)) },
			text: "called next twice", class: "wrap", calls: 1,
		},
		"executes it twice and hides that": {
			wrap: func(ctx context.Context, next next) error { err := next(ctx); _ = next(ctx); return err }, calls: 1,
		},
		"passes no context": {
			wrap: func(_ context.Context, next next) error { return next(nil) }, //nolint:contextcheck // that is the mistake
			text: "a context that was not made of the one that it got", class: "wrap",
		},
		"passes a context of its own": {
			wrap: func(_ context.Context, next next) error { return next(context.Background()) }, //nolint:contextcheck // that is the mistake
			text: "a context that was not made of the one that it got", class: "wrap",
		},
		"does not know that a task is to be handed back": {
			wrap: func(ctx context.Context, next next) error { return errors.New(fmt.Sprint(next(ctx))) },
			step: ErrInputsMissing, want: ErrInputsMissing, calls: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.check(t)
		})
	}
}

// TestWrapAndPanics: a panic passes through Wrap as through any function; one that Wrap keeps to
// itself is no success.
func TestWrapAndPanics(t *testing.T) {
	t.Parallel()
	panics := func(context.Context, Inputs) (Output, error) { panic("boo") }
	passed := false
	f := &StepFunction{Call: panics, Wrap: func(ctx context.Context, next func(context.Context) error) error {
		defer func() { passed = true }()
		return next(ctx)
	}}
	require.PanicsWithValue(t, "boo", func() { _, _ = callWrapped(t.Context(), f, Inputs{}) })
	require.True(t, passed)

	f.Wrap = func(ctx context.Context, next func(context.Context) error) error {
		defer func() { _ = recover() }()
		return next(ctx)
	}
	_, err := callWrapped(t.Context(), f, Inputs{})
	require.ErrorContains(t, err, "returned nil after a panic of the step function")
	require.Equal(t, classWrap, ErrorClass(err))
}

// TestAnAttemptLastsUntilItsFunctionHasReturned: also where Wrap calls it on another goroutine
// and leaves it alone. A call that comes later is refused.
func TestAnAttemptLastsUntilItsFunctionHasReturned(t *testing.T) {
	t.Parallel()
	begun, left, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var later func(context.Context) error
	f := &StepFunction{
		Call: func(context.Context, Inputs) (Output, error) {
			close(begun)
			<-left
			close(ended)
			return Output{}, nil
		},
		Wrap: func(ctx context.Context, next func(context.Context) error) error {
			later = next
			go func() { _ = next(ctx) }()
			<-begun
			defer close(left)
			return errWrap
		},
	}
	_, err := callWrapped(t.Context(), f, Inputs{})
	require.ErrorIs(t, err, errWrap)
	select {
	case <-ended:
	default:
		t.Error("the function had not returned")
	}
	require.ErrorContains(t, later(t.Context()), "called next after it had returned")
}

// BenchmarkCall: without a Wrap nothing is allocated.
func BenchmarkCall(b *testing.B) {
	call := func(context.Context, Inputs) (Output, error) { return Output{}, nil }
	for name, wrap := range map[string]func(context.Context, func(context.Context) error) error{
		"plain": nil, "wrapped": func(ctx context.Context, next func(context.Context) error) error { return next(ctx) },
	} {
		b.Run(name, func(b *testing.B) {
			f := &StepFunction{Call: call, Wrap: wrap}
			b.ReportAllocs()
			for b.Loop() {
				_, _ = callWrapped(b.Context(), f, Inputs{})
			}
		})
	}
}

func TestWithoutWrapNothingIsAllocated(t *testing.T) {
	ctx := t.Context()
	f := &StepFunction{Call: func(context.Context, Inputs) (Output, error) { return Output{}, nil }}
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = callWrapped(ctx, f, Inputs{}) }))
}
