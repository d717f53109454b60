package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// Outputs that step functions may return, and that must not harm the pod.

func TestB09AnyEncodedOutputIsLegalAndDistinct(t *testing.T) {
	virtual(t, func(t *testing.T) {
		outputs := map[string]any{
			"null": nil, "0": 0, `""`: "", "[]": []int{}, "{}": struct{}{}, "false": false, "1e400": json.RawMessage("1e400"),
			`"\ud800"`: json.RawMessage(`"\ud800"`), `[null]`: []any{nil},
		}
		_, handle := start(t, single(func(_ context.Context, in string) (json.RawMessage, error) {
			out, err := json.Marshal(outputs[in])
			return out, err
		}))
		for want := range outputs {
			run := begin(t, handle, want)
			got, err := run.Await(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, string(got))
			require.Equal(t, want, string(stepOf(t, run, "step").Output))
		}
	})
}

// blank is a codec to which everything is zero bytes.
type blank struct{}

func (blank) Marshal(any) ([]byte, error)     { return nil, nil }
func (blank) Unmarshal(b []byte, _ any) error { return map[bool]error{true: nil}[len(b) == 0] }

func TestB09AnOutputOfZeroBytesIsAnOutput(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, troupe.Define("blank", func(b *troupe.Builder[string]) troupe.StepRef[int] {
			return troupe.Step1(b, "plus", plus, troupe.Step0(b, "number", number))
		}), func(c *troupe.Config) { c.Codec = blank{} })
		_, err := handle.Run(t.Context(), "")
		require.NoError(t, err, "not ErrNoOutput")
	})
}

type marshalPanics struct{}

func (marshalPanics) MarshalJSON() ([]byte, error) { panic("cannot be marshaled") }

// knot points to itself.
type knot struct{ Next *knot }

func TestB10OutputsThatCannotBeStoredFailForGood(t *testing.T) {
	virtual(t, func(t *testing.T) {
		circle := &knot{}
		circle.Next = circle
		outputs := map[string]any{
			"channel": make(chan int), "function": func() {}, "cycle": circle, "panics": marshalPanics{}, "panics for ever": endless{},
			"too large": strings.Repeat("x", 2<<20),
		}
		d := &diary{}
		_, handle := start(t, single(func(_ context.Context, in string) (any, error) {
			d.note("%s", in)
			return outputs[in], nil
		}, steady(3)))
		for name := range outputs {
			run := begin(t, handle, name)
			_, err := run.Await(t.Context())
			require.ErrorIs(t, err, troupe.ErrRunFailed, name)
			var ended *troupe.RunError
			require.ErrorAs(t, err, &ended)
			require.NotEmpty(t, ended.Class, name)
			require.NotEmpty(t, ended.Text, name)
			require.Equal(t, 1, stepOf(t, run, "step").Attempt, "%s: no retry cures it", name)
		}
		require.Len(t, d.all(), len(outputs))
		_, err := handle.Run(t.Context(), "nothing special")
		require.NoError(t, err, "the pod lives")
	})
}

type mute struct{ text *string }

func (m *mute) Error() string { return *m.text }

// misbehave is a step function whose misbehaviour must harm its own attempt only.
func misbehave(_ context.Context, how string) (int, error) {
	switch how {
	case "panic":
		panic("on purpose")
	case "panic with nil":
		panic(nil)
	case "nil map":
		var m map[string]int
		m["x"] = 1 //nolint:staticcheck // what the row is about
	case "nil pointer":
		var p *knot
		p.Next = nil
	case "goexit":
		runtime.Goexit()
	case "closes twice":
		c := make(chan int)
		close(c)
		close(c)
	case "error of 10 MB":
		return 0, errors.New(strings.Repeat("long ", 2<<20))
	case "error with NUL":
		return 0, errors.New("before\x00after \xff")
	case "error that wraps nil":
		return 0, fmt.Errorf("wraps %w", error(nil))
	case "nil in an error":
		return 0, (*mute)(nil)
	case "error that panics":
		return 0, &mute{}
	case "panic whose text panics":
		panic(endless{})
	}
	return 1, nil
}

// endless panics with itself when it is asked for its text.
type endless struct{}

func (endless) String() string               { panic(endless{}) }
func (endless) MarshalJSON() ([]byte, error) { panic(endless{}) }

func TestB11NothingAStepFunctionDoesHarmsThePod(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, single(misbehave))
		for _, how := range []string{
			"panic", "panic with nil", "nil map", "nil pointer", "goexit", "closes twice", "error of 10 MB",
			"error with NUL", "error that wraps nil", "nil in an error", "error that panics",
			"panic whose text panics",
		} {
			run := begin(t, handle, how)
			_, err := run.Await(t.Context())
			require.ErrorIs(t, err, troupe.ErrRunFailed, how)
			step := stepOf(t, run, "step")
			require.Equal(t, troupe.StateFailed, step.State, how)
			require.Equal(t, 1, step.Attempt, how)
			require.NotEmpty(t, step.Error, how)
			require.LessOrEqual(t, len(step.Error), 8<<10, how)
			require.NotContains(t, step.Error, "\x00", how)
		}
		got, err := handle.Run(t.Context(), "")
		require.NoError(t, err, "the pod lives")
		require.Equal(t, 1, got)
	})
}

func TestB11PanicsAreRetriedLikeErrors(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, single(func(ctx context.Context, _ string) (int, error) {
			if attempt := troupe.Task(ctx).Attempt; attempt < 3 {
				panic(attempt)
			}
			return 3, nil
		}, steady(3)))
		got, err := handle.Run(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, 3, got)
	})
}
