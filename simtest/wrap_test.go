package simtest_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/simtest"
)

// executions counts, by run and step, what Wrap and the functions in it were called for.
type executions struct {
	mu    sync.Mutex
	count map[string]int
}

func (e *executions) add(ctx context.Context, what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	task := troupe.Task(ctx)
	e.count[what+" "+task.Step]++
}

// TestWrapInASimulation: what Wrap does is tested with all that goes wrong, also around stubs: it is
// called for every execution.
func TestWrapInASimulation(t *testing.T) {
	t.Parallel()
	var now *executions // of the simulation that runs: one does at a time
	config := troupe.Config{Wrap: func(ctx context.Context, _ troupe.TaskInfo, next func(context.Context) error) error {
		now.add(ctx, "wrapped")
		return next(ctx)
	}}
	simtest.Run(t, simtest.Options{Seeds: 50, Config: config}, func(s *simtest.Sim) {
		own := &executions{count: map[string]int{}}
		now = own
		w := simtest.Register(s, troupe.Define("w", func(b *troupe.Builder[int]) troupe.StepRef[int] {
			first := troupe.Step0(b, "real", func(ctx context.Context, n int) (int, error) {
				own.add(ctx, "executed")
				return n, nil
			}, troupe.Retry{Attempts: 1000})
			return troupe.Step1(b, "stubbed", func(context.Context, int, int) (int, error) { return 0, nil }, first, troupe.InTx())
		}))
		simtest.Stub(s, w, "stubbed", func(ctx context.Context, call simtest.Call[int, int]) (int, error) {
			own.add(ctx, "executed")
			n, _ := simtest.Parent[int](call, "real")
			return n + 1, nil
		})
		out, err := w.Start(1).Await()
		require.NoError(s, err)
		require.Equal(s, 2, out)
		own.mu.Lock()
		defer own.mu.Unlock()
		for _, step := range []string{"real", "stubbed"} {
			require.Positive(s, own.count["executed "+step])
			require.GreaterOrEqual(s, own.count["wrapped "+step], own.count["executed "+step], "a pod may crash in between")
		}
		s.Sometimes("a step is executed twice", own.count["executed real"]+own.count["executed stubbed"] > 2)
	})
}
