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
)

// However many wait, a sweep costs a statement for each thousand of their runs, and
// only watchers of ended runs are told, whether hints are lost or not.
func TestWaitingForManyRunsCostsLittle(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), newGauge().work(time.Hour))
		p := w.start(Config{Slots: 1, Sweep: time.Second, SweepDegraded: time.Second})
		w.trigger(p, "single") // takes the slot
		run := w.trigger(p, "single")
		hints, stop := p.Watch(run)
		defer stop()
		for range 2500 {
			_, stop := p.Watch(w.trigger(p, "single"))
			defer stop()
		}
		before := w.count("ended")
		pass(100 * time.Second)
		require.InDelta(t, 300, w.count("ended")-before, 60, "three for each sweep")
		require.Empty(t, hints, "the run has not ended")

		var fails atomic.Int64
		w.faults.failBefore(func(_ context.Context, call string) error {
			if call == "ended" && fails.Add(1) <= 3 {
				return errors.New("no answer")
			}
			return nil
		})
		_, err := w.store.CancelRun(t.Context(), persistence.Cancel{Run: run, Grace: 0}) // without a hint
		require.NoError(t, err)
		pass(10 * time.Second)
		require.Len(t, hints, 1, "a look has found the end")
	})
}
