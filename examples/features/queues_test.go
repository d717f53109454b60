package features_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// Queue sends a step to the pods that serve a named queue: those with a GPU,
// or the one that may use a licence. Config.QueueSlots says what a pod serves.
func TestQueues(t *testing.T) {
	step := func(context.Context, string) (bool, error) { return true, nil }
	both := func(_ context.Context, _ string, _, _ bool) (bool, error) { return true, nil }
	w := troupe.Define("render", func(b *troupe.Builder[string]) troupe.StepRef[bool] {
		return troupe.Step2(b, "done", both,
			troupe.Step0(b, "layout", step),
			troupe.Step0(b, "render", step, troupe.Queue("gpu")))
	})
	t.Run("a pod that serves both", func(t *testing.T) {
		config := troupe.Config{QueueSlots: map[string]int{"default": 4, "gpu": 1}}
		inMemory(t, config, w, func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[string, bool]) {
			done, err := handle.Run(t.Context(), "")
			require.NoError(t, err)
			require.True(t, done)
		})
	})
	t.Run("a pod without a GPU", func(t *testing.T) {
		config := troupe.Config{QueueSlots: map[string]int{"default": 4}}
		inMemory(t, config, w, func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[string, bool]) {
			run, err := handle.RunNoWait(t.Context(), "")
			require.NoError(t, err)
			synctest.Wait()
			states := statesOf(t, engine, run.ID())
			require.Equal(t, troupe.StateCompleted, states["layout"])
			require.Equal(t, troupe.StateQueued, states["render"], "it waits for a pod that serves its queue")
		})
	})
}
