package features_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// How a step holds its parent says what it can live with: a plain ref needs
// its output, Maybe also takes that it was skipped, Settled any ending. A
// failure that every child holds by Settled is handled: the run continues.
func TestSettled(t *testing.T) {
	quote := func(price int, err error) func(context.Context, string) (int, error) {
		return func(context.Context, string) (int, error) { return price, err }
	}
	cheapest := func(_ context.Context, _ string, first, second troupe.Outcome[int]) (int, error) {
		best := 0
		for _, offer := range []troupe.Outcome[int]{first, second} {
			price, err := offer.Value()
			var failed *troupe.StepError
			switch {
			case errors.As(err, &failed): // failed.Step, failed.Class and failed.Text say why
			case err != nil:
				return 0, err
			case best == 0 || price < best:
				best = price
			}
		}
		return best, nil
	}
	w := troupe.Define("quotes", func(b *troupe.Builder[string]) troupe.StepRef[int] {
		first := troupe.Step0(b, "first", quote(120, nil))
		second := troupe.Step0(b, "second", quote(0, errors.New("the shop is closed")))
		return troupe.Step2(b, "cheapest", cheapest, troupe.Settled(first), troupe.Settled(second))
	})
	inMemory(t, troupe.Config{}, w, func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[string, int]) {
		run, err := handle.RunNoWait(t.Context(), "a bicycle")
		require.NoError(t, err)
		price, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, 120, price)
		require.Equal(t, troupe.StateFailed, statesOf(t, engine, run.ID())["second"])
	})
}

// A step function is an ordinary function. Its test needs no engine.
func TestStepFunctionWithoutAnEngine(t *testing.T) {
	t.Parallel()
	greet := func(_ context.Context, name string, title troupe.Opt[string]) (string, error) {
		return title.Or("dear") + " " + name, nil
	}
	got, err := greet(t.Context(), "Ada", troupe.Some("Countess"))
	require.NoError(t, err)
	require.Equal(t, "Countess Ada", got)
	got, err = greet(t.Context(), "Ada", troupe.None[string]())
	require.NoError(t, err)
	require.Equal(t, "dear Ada", got)
}
