package features_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// double is the workflow that the examples about triggers use.
func double(name string) *troupe.Workflow[int, int] {
	return troupe.Define(name, func(b *troupe.Builder[int]) troupe.StepRef[int] {
		return troupe.Step0(b, "double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	})
}

// Key makes a trigger safe to repeat: the same key and input is the same run,
// the same key with another input is a mistake.
func TestIdempotencyKey(t *testing.T) {
	inMemory(t, troupe.Config{}, double("keyed"), func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[int, int]) {
		first, err := handle.RunNoWait(t.Context(), 21, troupe.Key("request-7"))
		require.NoError(t, err)
		again, err := handle.RunNoWait(t.Context(), 21, troupe.Key("request-7"))
		require.NoError(t, err)
		require.Equal(t, first.ID(), again.ID())
		require.True(t, again.Existing())

		_, err = handle.RunNoWait(t.Context(), 22, troupe.Key("request-7"))
		require.ErrorIs(t, err, troupe.ErrKeyConflict)
	})
}

// RunMany stores all of its runs in one transaction, or none. Keys gives each its own
// key, and GetByKey finds a run by it.
func TestRunMany(t *testing.T) {
	inMemory(t, troupe.Config{}, double("many"), func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[int, int]) {
		runs, err := handle.RunMany(t.Context(), []int{1, 2, 3, 4, 5}, troupe.Keys([]string{"a", "b", "c", "", ""}))
		require.NoError(t, err)
		sum := 0
		for _, run := range runs {
			doubled, err := run.Await(t.Context())
			require.NoError(t, err)
			sum += doubled
		}
		require.Equal(t, 30, sum)
		second, err := handle.GetByKey(t.Context(), "", "b")
		require.NoError(t, err)
		require.Equal(t, runs[1].ID(), second.ID())
	})
}

// At stores a run now and starts it later.
func TestAt(t *testing.T) {
	inMemory(t, troupe.Config{}, double("later"), func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[int, int]) {
		monday := time.Now().Add(72 * time.Hour)
		run, err := handle.RunNoWait(t.Context(), 4, troupe.At(monday))
		require.NoError(t, err)
		synctest.Wait()
		status, err := run.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, troupe.StatePending, status.State)

		_, err = run.Await(t.Context())
		require.NoError(t, err)
		status, err = run.Status(t.Context())
		require.NoError(t, err)
		require.False(t, status.StartedAt.Before(monday))
	})
}

// What is said about a run when it is triggered, every step of it gets to know.
func TestAStepKnowsItsRun(t *testing.T) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	w := troupe.Define("known", func(b *troupe.Builder[int]) troupe.StepRef[troupe.TaskInfo] {
		return troupe.Step0(b, "look", func(ctx context.Context, _ int) (troupe.TaskInfo, error) {
			return troupe.Task(ctx), nil
		})
	})
	inMemory(t, troupe.Config{}, w, func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[int, troupe.TaskInfo]) {
		task, err := handle.Run(t.Context(), 1, troupe.Tenant("acme"), troupe.Labels(map[string]string{"region": "eu"}), troupe.TraceContext(trace))
		require.NoError(t, err)
		require.Equal(t, "acme", task.Tenant)
		require.Equal(t, map[string]string{"region": "eu"}, task.Labels)
		require.Equal(t, trace, task.TraceContext)
	})
}

// Runs lists what was triggered, newest first, a page at a time.
func TestListing(t *testing.T) {
	inMemory(t, troupe.Config{}, double("listed"), func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[int, int]) {
		for n := range 5 {
			_, err := handle.Run(t.Context(), n, troupe.Labels(map[string]string{"parity": []string{"even", "odd"}[n%2]}))
			require.NoError(t, err)
		}
		filter := troupe.Filter{Labels: map[string]string{"parity": "even"}, Limit: 2}
		first, err := engine.Runs(t.Context(), filter)
		require.NoError(t, err)
		require.Len(t, first.Runs, 2)
		filter.Before = first.Next
		second, err := engine.Runs(t.Context(), filter)
		require.NoError(t, err)
		require.Len(t, second.Runs, 1)
		require.True(t, second.Next.IsZero())
	})
}
