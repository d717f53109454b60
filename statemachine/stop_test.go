package statemachine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/statemachine"
)

// What a machine leaves running when it ends is told to stop with the next renewal of its pod.
func TestWhatAMachineLeavesRunningIsToldToStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, err := troupe.NewInMemory(troupe.Config{})
		require.NoError(t, err)
		machine := statemachine.Define("leaving", func(m *statemachine.Builder[int, int, int]) {
			long := statemachine.Activity(m, "long", func(ctx context.Context, _ int) (int, error) {
				select {
				case <-ctx.Done():
					return 0, context.Cause(ctx)
				case <-time.After(time.Hour):
					return 0, nil
				}
			})
			short := statemachine.Activity(m, "short", func(context.Context, int) (int, error) {
				time.Sleep(time.Second)
				return 1, nil
			})
			m.OnStart(func(a *statemachine.Activation[int, int], _ int) { long.Start(a, 0); short.Start(a, 0) })
			statemachine.OnCompleted(m, short, func(a *statemachine.Activation[int, int], out int) { a.Complete(out) })
		})
		handle, err := troupe.Register(engine, machine)
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
		defer func() { require.NoError(t, engine.Stop(context.Background())) }()
		began := time.Now()
		out, err := handle.Run(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, 1, out)
		require.Less(t, time.Since(began), 20*time.Second)
	})
}
