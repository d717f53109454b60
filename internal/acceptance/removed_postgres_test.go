package acceptance

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// The tables of the engine are emptied by hand under runs that are at work: all runs
// end, timers included, and so do later ones.
func TestAnEngineOutlivesTheTablesThatPeopleEmpty(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	engine, err := troupe.New(pool, troupe.Config{Pulse: 500 * time.Millisecond, Lease: 2 * time.Second})
	require.NoError(t, err)
	var attempts atomic.Int64
	handle, err := troupe.Register(engine, troupe.Define("emptied", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		held := troupe.Step0(b, "held", func(ctx context.Context, in string) (string, error) {
			if in == "held" && attempts.Add(1) == 1 {
				<-ctx.Done()
				return "", context.Cause(ctx)
			}
			return in, nil
		})
		nap := troupe.Sleep(b, "nap", time.Second, troupe.After(held))
		return troupe.Step1(b, "last", func(_ context.Context, _, out string) (string, error) { return out, nil }, held, troupe.After(nap))
	}))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })
	first, err := handle.RunNoWait(t.Context(), "held")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return attempts.Load() == 1 && engine.Stats().Leading }, 30*time.Second, 10*time.Millisecond)

	for _, table := range []string{"leader_epoch", "frontiers", "pods"} { // one after the other: who locks several may be the victim of a deadlock
		_, err = pool.Exec(t.Context(), "truncate troupe."+table+" cascade")
		require.NoError(t, err)
	}
	within, cancel := context.WithTimeout(t.Context(), 45*time.Second)
	defer cancel()
	out, err := first.Await(within)
	require.NoError(t, err)
	require.Equal(t, "held", out)
	out, err = handle.Run(within, "later")
	require.NoError(t, err)
	require.Equal(t, "later", out)
	require.Equal(t, int64(2), attempts.Load())
	require.Empty(t, engine.Health(t.Context()).Degraded)
}
