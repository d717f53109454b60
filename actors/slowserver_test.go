package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// On a server that is slow for each row, batches shrink until it ends them in time, and
// grow again once it is fast.
func TestBatchesOfASlowServer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store := w.slowRows()
		p := w.single(newGauge().work(time.Millisecond), Config{Slots: 5, TriggerTimeout: 5 * time.Minute})
		crowd := func(n int) (runs []workflow.RunID) {
			t.Helper()
			answers := make(chan workflow.RunID, n)
			for range n {
				go func() {
					stored, refused, err := p.Trigger(t.Context(), []persistence.Trigger{w.order("single")})
					if err != nil || refused != nil {
						answers <- workflow.RunID{}
						return
					}
					answers <- stored[0].Run
				}()
			}
			for range n {
				runs = append(runs, <-answers)
			}
			require.NotContains(t, runs, workflow.RunID{})
			return runs
		}
		store.each.Store(int64(200 * time.Millisecond))
		w.completed(crowd(400)...) // 80 s, in one batch
		require.Less(t, store.triggers.Load(), int64(storeTimeout/(200*time.Millisecond)))
		store.each.Store(int64(time.Millisecond)) // others come while a batch is stored
		for range 20 {
			w.completed(crowd(400)...)
		}
		require.Greater(t, store.triggers.Load(), int64(storeTimeout/(200*time.Millisecond)))
	})
}

func TestTimersOfASlowServer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store := w.slowRows()
		store.each.Store(int64(200 * time.Millisecond))
		w.register(storetest.Nap(time.Second), newGauge().work(time.Millisecond))
		p := w.start(Config{Slots: 5})
		var runs []workflow.RunID
		for range 50 {
			runs = append(runs, w.trigger(p, "nap1s"))
		}
		pass(3 * time.Minute)
		w.completed(runs...)
		require.Less(t, store.timers.Load(), int64(200))
	})
}
