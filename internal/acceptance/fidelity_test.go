package acceptance

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/messages"
)

type (
	opaque struct{ amount int }
	order  struct {
		ID    string
		Lines []struct{ Done chan bool }
	}
	note struct {
		Text string
		Meta any
	}
)

// lossy takes an order and returns a struct of which JSON keeps nothing.
func lossy() *troupe.Workflow[order, opaque] {
	return troupe.Define("lossy", func(b *troupe.Builder[order]) troupe.StepRef[opaque] {
		return troupe.Step0(b, "charge", func(context.Context, order) (opaque, error) { return opaque{amount: 1}, nil })
	})
}

func TestTypesThatJSONLosesAreProblemsOfTheWorkflow(t *testing.T) {
	t.Parallel()
	for name, codec := range map[string]troupe.Codec{"default": nil, "sealed": sealed{troupe.JSON{}}, "boxed": boxed{}} {
		engine, err := troupe.NewInMemory(troupe.Config{Codec: codec})
		require.NoError(t, err)
		_, err = troupe.Register(engine, lossy())
		var problems *troupe.DefinitionError
		require.ErrorAs(t, err, &problems, name)
		require.Equal(t, "lossy", problems.Workflow)
		require.Equal(t, []troupe.Problem{
			{
				Field: "input", Text: "acceptance.order: Lines[].Done is a chan bool, which JSON cannot hold",
				Remedy: "leave it out with the tag `json:\"-\"`, or give the type MarshalJSON and UnmarshalJSON",
			},
			{
				Step: "charge", Field: "output",
				Text:   "the type is a acceptance.opaque, which has no exported field: JSON keeps nothing of it",
				Remedy: "export its fields, or give the type MarshalJSON and UnmarshalJSON",
			},
		}, problems.Problems)
		require.ErrorContains(t, err, `register workflow "lossy"`)
	}
	engine, err := troupe.NewInMemory(troupe.Config{Codec: indented{}})
	require.NoError(t, err)
	_, err = troupe.Register(engine, lossy())
	require.NoError(t, err, "what another codec can do is not known")
}

const (
	latin  = "caf\xe9"           // not UTF-8
	beyond = int64(1)<<53 + 1    // no float64
	path   = `Meta["a"]["n"][1]` // of beyond, in the notes below
)

func meta(value any) note {
	return note{Meta: map[string]any{"a": map[string]any{"n": []any{1, value}}}}
}

func TestInputsThatJSONWouldAlterAreRefused(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, troupe.Define("notes", func(b *troupe.Builder[note]) troupe.StepRef[note] {
			return troupe.Step0(b, "keep", func(_ context.Context, in note) (note, error) { return in, nil })
		}))
		for _, options := range [][]troupe.TriggerOption{nil, {troupe.Key("k")}} {
			for text, in := range map[string]note{
				"Text is text that is not UTF-8":              {Text: latin},
				path + " is text that is not UTF-8":           meta(latin),
				path + " is an integer beyond 2^53 in an any": meta(beyond),
			} {
				_, err := handle.RunNoWait(t.Context(), in, options...)
				var refused *troupe.TriggerError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, []any{troupe.BadInput, "input"}, []any{refused.Code, refused.Field})
				require.ErrorContains(t, err, text)
			}
		}
		out, err := handle.Run(t.Context(), meta("9007199254740993"))
		require.NoError(t, err)
		require.Equal(t, map[string]any{"a": map[string]any{"n": []any{1.0, "9007199254740993"}}}, out.Meta)
	})
}

func TestOutputsThatJSONWouldAlterFailTheirStep(t *testing.T) {
	virtual(t, func(t *testing.T) {
		calls := 0
		_, handle := start(t, single(func(context.Context, string) (note, error) {
			calls++
			return meta(beyond), nil
		}, steady(3)))
		run := begin(t, handle, "")
		_, err := run.Await(t.Context())
		require.ErrorContains(t, err, path+" is an integer beyond 2^53")
		require.Equal(t, "encoding", stepOf(t, run, "step").Class)
		require.Equal(t, 1, calls, "another attempt would return the same")
	})
}

// The type of the output, or input, is any itself.
func TestAnAnyThatLosesDigitsIsRefused(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, troupe.Define("any", func(b *troupe.Builder[any]) troupe.StepRef[any] {
			return troupe.Step0(b, "double", func(_ context.Context, in any) (any, error) {
				n, _ := in.(float64)
				return int64(n) * 3, nil
			})
		}))
		_, err := handle.RunNoWait(t.Context(), beyond)
		require.ErrorContains(t, err, "the value is an integer beyond 2^53 in an any")
		_, err = handle.Run(t.Context(), int64(1)<<52+1)
		require.ErrorContains(t, err, "the value is an integer beyond 2^53 in an any")
		out, err := handle.Run(t.Context(), 2)
		require.NoError(t, err)
		require.EqualValues(t, 6, out)
	})
}

func TestAMessageThatIsNotUTF8IsRefused(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, _ := start(t, single(number))
		answer, err := engine.System().Root.RequestFuture(engine.PID(), &messages.TriggerRun{
			Workflow: "single", Input: []byte(`"` + latin + `"`),
		}, day).Result()
		require.NoError(t, err)
		refused, ok := answer.(*messages.TriggerRefused)
		require.True(t, ok)
		require.Contains(t, refused.GetRemedy(), "is not UTF-8")
	})
}
