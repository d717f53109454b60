package features_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// OnFailure runs once, after everything else of a failed run has ended. It is
// a durable task like any other: a crash does not lose it. Completed reads what the
// steps returned that had completed.
func TestOnFailure(t *testing.T) {
	var told []string
	reserve := func(context.Context, string) (string, error) { return "seat 12", nil }
	pay := func(context.Context, string, string) (string, error) { return "", errors.New("no funds") }
	w := troupe.Define("ticket", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		seat := troupe.Step0(b, "reserve", reserve)
		b.OnFailure(func(ctx context.Context, customer string, failed []*troupe.StepError) error {
			for _, step := range failed {
				told = append(told, customer+": "+step.Step+": "+step.Text)
			}
			reserved, err := troupe.Completed(ctx, seat)
			if err != nil {
				return err
			}
			told = append(told, reserved+" is free again")
			return nil
		})
		return troupe.Step1(b, "pay", pay, seat)
	})
	inMemory(t, troupe.Config{}, w, func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[string, string]) {
		run, err := handle.RunNoWait(t.Context(), "Ada")
		require.NoError(t, err)
		_, err = run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.Equal(t, []string{"Ada: pay: no funds", "seat 12 is free again"}, told)
		require.Equal(t, troupe.StateCompleted, statesOf(t, engine, run.ID())["on-failure"])
	})
}

// FinishSiblings lets independent branches end although one has failed; the
// default, FailFast, cancels what has not started.
func TestFinishSiblings(t *testing.T) {
	works := func(context.Context, string) (int, error) { return 1, nil }
	breaks := func(context.Context, string) (int, error) { return 0, errors.New("broken") }
	next := func(_ context.Context, _ string, n int) (int, error) { return n + 1, nil }
	declare := func(b *troupe.Builder[string]) troupe.StepRef[int] {
		bad := troupe.Step0(b, "bad", breaks)
		troupe.Step1(b, "after-bad", next, bad)
		return troupe.Step1(b, "after-good", next, troupe.Step0(b, "good", works))
	}
	w := troupe.Define("siblings", declare, troupe.FinishSiblings())
	inMemory(t, troupe.Config{}, w, func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[string, int]) {
		run, err := handle.RunNoWait(t.Context(), "")
		require.NoError(t, err)
		_, err = run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.Equal(t, map[string]troupe.State{
			"bad": troupe.StateFailed, "after-bad": troupe.StateCanceled,
			"good": troupe.StateCompleted, "after-good": troupe.StateCompleted,
		}, statesOf(t, engine, run.ID()))
	})
}
