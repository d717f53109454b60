package actors

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// counting is a store that counts looks at runs, and now and then fails one.
type counting struct {
	persistence.Store

	looks, fails atomic.Int64
}

func (s *counting) EndedRuns(ctx context.Context, runs []workflow.RunID) ([]workflow.RunID, error) {
	s.looks.Add(1)
	if s.fails.Add(-1) >= 0 {
		return nil, errors.New("no answer")
	}
	return s.Store.EndedRuns(ctx, runs)
}

// However many wait, a sweep costs a statement for each thousand of their runs, and
// only watchers of ended runs are told, whether hints are lost or not.
func TestWaitingForManyRunsCostsLittle(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), newGauge().work(time.Hour))
		store := &counting{Store: w.store}
		w.faults.Store = store
		p := w.start(Config{Slots: 1, Sweep: time.Second, SweepDegraded: time.Second})
		w.trigger(p, "single") // takes the slot
		run := w.trigger(p, "single")
		hints, stop := p.Watch(run)
		defer stop()
		for range 2500 {
			_, stop := p.Watch(w.trigger(p, "single"))
			defer stop()
		}
		store.looks.Store(0)
		pass(100 * time.Second)
		require.InDelta(t, 300, store.looks.Load(), 60, "three for each sweep")
		require.Empty(t, hints, "the run has not ended")

		store.fails.Store(3)
		_, err := w.store.CancelRun(t.Context(), persistence.Cancel{Run: run, Grace: 0}) // without a hint
		require.NoError(t, err)
		pass(10 * time.Second)
		require.Len(t, hints, 1, "a look has found the end")
	})
}
