package features_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// Cancel ends the contexts of running steps, on whatever pod, and cancels the
// rest. The cause of the context says why it has ended.
func TestCancel(t *testing.T) {
	var cause error
	long := func(ctx context.Context, _ string) (int, error) {
		select {
		case <-ctx.Done():
			cause = context.Cause(ctx)
			return 0, cause
		case <-time.After(10 * time.Hour):
			return 1, nil
		}
	}
	next := func(_ context.Context, _ string, n int) (int, error) { return n, nil }
	w := troupe.Define("long", func(b *troupe.Builder[string]) troupe.StepRef[int] {
		return troupe.Step1(b, "next", next, troupe.Step0(b, "long", long))
	})
	inMemory(t, troupe.Config{}, w, func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[string, int]) {
		run, err := handle.RunNoWait(t.Context(), "")
		require.NoError(t, err)
		synctest.Wait() // the step runs
		require.NoError(t, run.Cancel(t.Context(), "the customer changed their mind"))

		_, err = run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunCanceled)
		require.ErrorContains(t, err, "the customer changed their mind")
		require.ErrorIs(t, cause, troupe.ErrCanceled)
		require.Equal(t, map[string]troupe.State{"long": troupe.StateCanceled, "next": troupe.StateCanceled},
			statesOf(t, engine, run.ID()))
	})
}
