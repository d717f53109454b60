package acceptance

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// On real tables, with two pods: a map of a thousand elements fails, is read by page, and continues
// with what it had not completed.
func TestMapsOnPostgres(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	var broken atomic.Bool
	var mu sync.Mutex
	calls := map[int]int{}
	broken.Store(true)
	w := troupe.Define("large", func(b *troupe.Builder[int]) troupe.StepRef[[]troupe.ElementOutcome[string]] {
		items := troupe.Step0(b, "list", list)
		return troupe.MapSettled(b, "each", items, func(ctx context.Context, _, item int) (string, error) {
			at := troupe.Task(ctx).Item
			mu.Lock()
			calls[at]++
			mu.Unlock()
			if broken.Load() && at >= 600 {
				return "", troupe.Class("torn", errBusy)
			}
			return fmt.Sprint(item), nil
		}, troupe.MaxConcurrency(50), troupe.ToleratedFailures(0.01))
	})
	joined(t, pool, troupe.Config{Slots: 20, Codec: sealed{troupe.JSON{}}}, w)
	engine, handle := joined(t, pool, troupe.Config{Slots: 20, Codec: sealed{troupe.JSON{}}}, w)
	const items = 1000
	run, err := handle.RunNoWait(t.Context(), items)
	require.NoError(t, err)
	_, err = run.Await(t.Context())
	require.ErrorIs(t, err, troupe.ErrElementFailed)
	require.ErrorContains(t, err, "11 of 1000 elements failed, where 10 may")

	states, counts := elementsOf(t, run, "each")
	require.Equal(t, items-counts.Left, len(states))
	require.Equal(t, stepOf(t, run, "each").Map, counts)
	require.GreaterOrEqual(t, counts.Failed, 11)
	require.Zero(t, counts.Open)
	steps := map[string]bool{}
	for event, err := range run.Events(t.Context()) {
		require.NoError(t, err)
		steps[event.Step] = true
	}
	require.True(t, steps["each[599]"])

	mu.Lock()
	clear(calls)
	mu.Unlock()
	broken.Store(false)
	requeued, err := engine.DeadLetters().RequeueRun(t.Context(), "", run.ID(), troupe.RequeueOptions{})
	require.NoError(t, err)
	out, err := handle.Get("", requeued.Run).Await(t.Context())
	require.NoError(t, err)
	require.Len(t, out, items)
	for i := range out {
		value, err := out[i].Value()
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i*10), value)
		want := 1
		if states[i] == troupe.StateCompleted {
			want = 0
		}
		require.Equal(t, want, calls[i], "element %d was %v", i, states[i])
	}
}

// elementsOf reads the elements of a map by page, and how many there are.
func elementsOf[O any](t *testing.T, run *troupe.Run[O], step string) (states map[int]troupe.State, counts troupe.MapStatus) {
	t.Helper()
	states = map[int]troupe.State{}
	for filter := (troupe.ElementFilter{Limit: 100}); ; {
		page, err := run.Elements(t.Context(), step, filter)
		require.NoError(t, err)
		for _, e := range page.Elements {
			require.Equal(t, fmt.Sprintf("%s[%d]", step, e.Item), e.Name)
			states[e.Item] = e.State
		}
		if filter.After = page.Next; page.Next == 0 {
			return states, page.Map
		}
	}
}
