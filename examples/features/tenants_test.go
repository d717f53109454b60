package features_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// Tenants share the pods fairly: a tenant with one run does not wait behind the thousand
// of another. And they do not see each other.
func TestTenants(t *testing.T) {
	var order ledger[string]
	work := func(ctx context.Context, _ int) (bool, error) {
		time.Sleep(time.Second)
		order.add(troupe.Task(ctx).Tenant)
		return true, nil
	}
	w := troupe.Define("work", func(b *troupe.Builder[int]) troupe.StepRef[bool] {
		return troupe.Step0(b, "work", work)
	})
	inMemory(t, troupe.Config{Slots: 1}, w, func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[int, bool]) {
		_, err := handle.RunMany(t.Context(), make([]int, 100), troupe.Tenant("large"))
		require.NoError(t, err)
		synctest.Wait()
		run, err := handle.RunNoWait(t.Context(), 0, troupe.Tenant("small"))
		require.NoError(t, err)
		_, err = run.Await(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, slices.Index(order.all(), "small"), 2, "after what was running, and one more at most")

		_, err = engine.Status(t.Context(), "large", run.ID())
		require.ErrorIs(t, err, troupe.ErrRunNotFound)
	})
}

// TenantLimit bounds how many tasks of one tenant run at the same time, over
// all pods.
func TestTenantLimit(t *testing.T) {
	var running, most atomic.Int32
	work := func(context.Context, int) (bool, error) {
		most.Store(max(most.Load(), running.Add(1)))
		time.Sleep(time.Second)
		running.Add(-1)
		return true, nil
	}
	w := troupe.Define("limited", func(b *troupe.Builder[int]) troupe.StepRef[bool] {
		return troupe.Step0(b, "work", work)
	})
	config := troupe.Config{Slots: 10, TenantLimit: 1}
	inMemory(t, config, w, func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[int, bool]) {
		runs, err := handle.RunMany(t.Context(), make([]int, 5))
		require.NoError(t, err)
		for _, run := range runs {
			_, err := run.Await(t.Context())
			require.NoError(t, err)
		}
		require.EqualValues(t, 1, most.Load())
	})
}
