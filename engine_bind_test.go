package troupe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// functions binds a workflow and returns its step functions by name.
func functions[I, O any](t *testing.T, w *Workflow[I, O]) map[string]actors.StepFunction {
	t.Helper()
	b, err := bind(w, Config{Codec: JSON{}}.binding(nil))
	require.NoError(t, err)
	byName := map[string]actors.StepFunction{}
	for _, fn := range b.Functions {
		require.Equal(t, w.Name(), fn.Workflow)
		byName[fn.Step] = fn
	}
	return byName
}

func constant[I, O any](value O) func(context.Context, I) (O, error) {
	return func(context.Context, I) (O, error) { return value, nil }
}

func completed(output string) persistence.Outcome {
	return persistence.Outcome{Step: "p", State: lifecycle.Completed, Output: []byte(output)}
}

func ended(state lifecycle.State) persistence.Outcome {
	return persistence.Outcome{Step: "p", State: state, Class: "c", Error: "e"}
}

func TestBindTakesTheTypesAway(t *testing.T) {
	t.Parallel()
	w := Define("w", func(b *Builder[string]) StepRef[string] {
		n := Step0(b, "n", constant[string](7))
		z := Sleep(b, "z", time.Hour, After(n))
		b.OnFailure(func(context.Context, string, []*StepError) error { return nil }, Queue("alerts"))
		return Step1(b, "out", func(_ context.Context, in string, n int) (string, error) {
			return strings.Repeat(in, n), nil
		}, n, After(z), RunIfAllSkipped(), Queue("q"), AttemptTimeout(time.Minute), HeartbeatTimeout(time.Second), ScheduleToStartTimeout(time.Hour))
	}, FinishSiblings())
	b, err := bind(w, Config{Codec: JSON{}}.binding(nil))
	require.NoError(t, err)
	require.EqualValues(t, 2, b.Graph.Output)
	require.Equal(t, workflow.FinishSiblings, b.Graph.Policy)
	require.Len(t, b.Functions, 3, "sleeps have none")
	require.Equal(t, []string{"n", "out", "on-failure"}, []string{b.Functions[0].Step, b.Functions[1].Step, b.Functions[2].Step})

	out := b.Functions[1]
	require.Equal(t, b.Graph.Nodes[2].Fingerprint, out.Fingerprint)
	require.True(t, b.Graph.Nodes[2].Traits.Has(workflow.TraitRunIfAllSkipped))
	require.Equal(t, b.Graph.OnFailure.Fingerprint, b.Functions[2].Fingerprint)
	require.Equal(t, workflow.Options{
		Queue: "q", AttemptTimeout: time.Minute, HeartbeatLimit: time.Second, ScheduleToStart: time.Hour,
	}, out.Options)
	require.Equal(t, "q", out.Queue)
	require.Equal(t, "alerts", b.Functions[2].Queue)
	require.Equal(t, "func(context.Context, string, int) (string, error)", w.plan.program.Definition.Steps[2].Type)

	got, err := out.Call(t.Context(), actors.Inputs{Input: []byte(`"ab"`), Parents: []persistence.Outcome{completed("3")}})
	require.NoError(t, err)
	require.Equal(t, `"ababab"`, string(got.Payload))
	require.Nil(t, got.Edges)
}

func TestDefaultsOfTheEngine(t *testing.T) {
	t.Parallel()
	w := Define("w", func(b *Builder[int]) StepRef[int] {
		Step0(b, "own", constant[int](1), Retry{Attempts: 2, If: func(error) bool { return false }}, AttemptTimeout(time.Hour))
		Step0(b, "tx", constant[int](1), InTx())
		b.OnFailure(func(context.Context, int, []*StepError) error { return nil })
		return Step0(b, "default", constant[int](1))
	})
	b, err := bind(w, Config{
		Codec: JSON{}, Retry: Retry{Attempts: 9, First: time.Second}, AttemptTimeout: time.Minute, InTxTimeout: time.Second,
	}.binding(nil))
	require.NoError(t, err)
	byName := map[string]actors.StepFunction{}
	for _, fn := range b.Functions {
		byName[fn.Step] = fn
	}
	require.Equal(t, workflow.RetryPolicy{Attempts: 2}, byName["own"].Options.Retry)
	require.Equal(t, time.Hour, byName["own"].Options.AttemptTimeout)
	require.Equal(t, workflow.RetryPolicy{Attempts: 9, First: time.Second}, byName["default"].Options.Retry)
	require.Equal(t, time.Minute, byName["default"].Options.AttemptTimeout)
	require.Equal(t, time.Second, byName["tx"].Options.AttemptTimeout)
	require.True(t, byName["tx"].Options.InTx)
	require.Zero(t, byName[onFailureStep].Options.Retry, "the handler has one attempt unless it says otherwise")

	failure := errors.New("boom")
	require.False(t, byName["own"].RetryIf(failure))
	require.True(t, byName["default"].RetryIf(failure))
	require.False(t, byName["default"].RetryIf(Terminal(failure)))
}

func TestRetryIf(t *testing.T) {
	t.Parallel()
	failure, odd := errors.New("boom"), errors.New("odd")
	worth := functions(t, Define("w", func(b *Builder[int]) StepRef[int] {
		return Step0(b, "s", constant[int](1), Retry{Attempts: 2, If: func(err error) bool {
			if errors.Is(err, odd) {
				panic("odd")
			}
			return true
		}})
	}))["s"].RetryIf
	require.True(t, worth(failure))
	require.True(t, worth(Class("net", failure)))
	require.False(t, worth(Class("net", Terminal(failure))))
	require.False(t, worth(odd), "a panic does not get further, and the error is not retried")
}

func TestErrors(t *testing.T) {
	t.Parallel()
	failure := errors.New("boom")
	require.NoError(t, Terminal(nil))
	require.NoError(t, Class("c", nil))
	require.ErrorIs(t, Terminal(Class("c", failure)), failure)
	require.Equal(t, "boom", Terminal(Class("c", failure)).Error())
	require.Equal(t, "outer", actors.ErrorClass(Class("outer", Terminal(Class("inner", failure)))))
	require.Empty(t, actors.ErrorClass(failure))
	require.Equal(t, `step "s" failed: t`, (&StepError{Step: "s", Text: "t"}).Error())
	require.Equal(t, `step "s" failed (c): t`, (&StepError{Step: "s", Class: "c", Text: "t"}).Error())
}

// TestParents has every way in which a parent can be held and can have ended.
func TestParents(t *testing.T) {
	t.Parallel()
	w := Define("w", func(b *Builder[string]) StepRef[string] {
		n := Step0(b, "n", constant[string](7))
		Step1(b, "plain", func(_ context.Context, _ string, n int) (int, error) { return n, nil }, n)
		Step1(b, "maybe", func(_ context.Context, _ string, n Opt[int]) (int, error) { return n.Or(-1), nil }, Maybe(n))
		return Step1(b, "settled", func(_ context.Context, _ string, n Outcome[int]) (string, error) {
			value, ended := n.Value()
			if !n.Completed() {
				return n.State().String() + ": " + ended.Error(), nil
			}
			return strings.Repeat("x", value), nil
		}, Settled(n))
	})
	steps := functions(t, w)
	for _, c := range []struct {
		step   string
		parent persistence.Outcome
		want   string // the payload, or part of the error
	}{
		{"plain", completed("7"), "7"},
		{"plain", completed("null"), "0"},
		{"plain", completed(`"x"`), `decode the output of "p" into int`},
		{"plain", completed(""), `decode the output of "p" into int`},
		{"plain", ended(lifecycle.Skipped), `parent "p" is skipped: want completed`},
		{"plain", persistence.Outcome{Step: "p", State: lifecycle.Completed, Large: true}, "was not loaded"},
		{"maybe", completed("7"), "7"},
		{"maybe", ended(lifecycle.Skipped), "-1"},
		{"maybe", ended(lifecycle.Failed), `parent "p" is failed: want completed`},
		{"settled", completed("2"), `"xx"`},
		{"settled", ended(lifecycle.Skipped), `"skipped: step was skipped"`},
		{"settled", ended(lifecycle.Canceled), `"canceled: step was canceled"`},
		{"settled", ended(lifecycle.Failed), `"failed: step \"p\" failed (c): e"`},
		{"settled", ended(lifecycle.Running), "want completed"},
	} {
		out, err := steps[c.step].Call(t.Context(), actors.Inputs{Input: []byte(`""`), Parents: []persistence.Outcome{c.parent}})
		if err != nil {
			require.ErrorContains(t, err, c.want, "%s %v", c.step, c.parent.State)
			continue
		}
		require.Equal(t, c.want, string(out.Payload), "%s %v", c.step, c.parent.State)
	}
	_, err := steps["plain"].Call(t.Context(), actors.Inputs{Input: []byte(`""`)})
	require.ErrorIs(t, err, actors.ErrInputsMissing)
	_, err = steps["plain"].Call(t.Context(), actors.Inputs{Input: []byte(`1`), Parents: []persistence.Outcome{completed("7")}})
	require.ErrorContains(t, err, "decode the run's input into string")
	require.Equal(t, "decoding", actors.ErrorClass(err))
	require.True(t, actors.IsTerminal(err))
}

type panicky struct{}

func (panicky) MarshalJSON() ([]byte, error) { panic("no way") }
func (*panicky) UnmarshalJSON([]byte) error  { return nil }

type cyclic struct{ Next *cyclic }

func TestOutputsThatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	loop := &cyclic{}
	loop.Next = loop
	failing := errors.New("boom")
	w := Define("w", func(b *Builder[int]) StepRef[int] {
		Step0(b, "chan", constant[int, any](make(chan int))) // of its own type Register would refuse it
		Step0(b, "cycle", constant[int](loop))
		Step0(b, "panic", constant[int](panicky{}))
		Step0(b, "nul", constant[int]("\x00"))
		Step0(b, "null", constant[int, any](nil))
		Step0(b, "nothing", constant[int](struct{}{}))
		return Step0(b, "error", func(context.Context, int) (int, error) { return 1, failing })
	})
	steps := functions(t, w)
	in := actors.Inputs{Input: []byte("1")}
	for name, want := range map[string]string{
		"chan": "unsupported type", "cycle": "encountered a cycle", "panic": "panic: no way",
	} {
		_, err := steps[name].Call(t.Context(), in)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "encode the output of type")
		require.Equal(t, "encoding", actors.ErrorClass(err))
		require.True(t, actors.IsTerminal(err))
	}
	for name, want := range map[string]string{"nul": `"\u0000"`, "null": "null", "nothing": "{}"} {
		out, err := steps[name].Call(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, want, string(out.Payload))
	}
	_, err := steps["error"].Call(t.Context(), in)
	require.ErrorIs(t, err, failing)
	require.False(t, actors.IsTerminal(err))
}

func TestOnFailure(t *testing.T) {
	t.Parallel()
	var seen []*StepError
	failing := errors.New("boom")
	w := Define("w", func(b *Builder[int]) StepRef[int] {
		b.OnFailure(func(_ context.Context, in int, failed []*StepError) error {
			if seen = failed; in == 2 {
				return failing
			}
			return nil
		}, Retry{Attempts: 4})
		return Step0(b, "s", constant[int](1))
	})
	handler := functions(t, w)[onFailureStep]
	require.Equal(t, 4, handler.Options.Retry.Attempts)
	out, err := handler.Call(t.Context(), actors.Inputs{Input: []byte("1"), Failed: []persistence.Outcome{ended(lifecycle.Failed)}})
	require.NoError(t, err)
	require.Empty(t, out)
	require.Equal(t, []*StepError{{Step: "p", Class: "c", Text: "e"}}, seen)
	_, err = handler.Call(t.Context(), actors.Inputs{Input: []byte("2")})
	require.ErrorIs(t, err, failing)
	_, err = handler.Call(t.Context(), actors.Inputs{Input: []byte("x")})
	require.ErrorContains(t, err, "decode the run's input")
}

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	failure := &StepError{Step: "s"}
	for err, want := range map[error]State{
		nil: StateCompleted, ErrStepSkipped: StateSkipped, ErrStepCanceled: StateCanceled, failure: StateFailed,
	} {
		o := OutcomeOf(5, err)
		value, got := o.Value()
		require.Equal(t, err, got)
		require.Equal(t, want, o.State())
		require.Equal(t, err == nil, o.Completed())
		if err == nil {
			require.Equal(t, 5, value)
		}
	}
	var zero Outcome[int]
	_, err := zero.Value()
	require.ErrorIs(t, err, ErrStepSkipped)
	require.Equal(t, StateSkipped, zero.State())
	_, ok := None[int]().Value()
	require.False(t, ok)
}

func TestWhatCannotBeDecodedIntoAnInterfaceIsNamed(t *testing.T) {
	t.Parallel()
	_, err := decodeOutput[fmt.Stringer](JSON{}, parentOutcome{Outcome: persistence.Outcome{Step: "p", Output: []byte("1")}}, place{})
	require.ErrorContains(t, err, `decode the output of "p" into fmt.Stringer`)
}
