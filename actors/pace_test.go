package actors

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// Where a server is slow for each row, batches become as small as it can end in time, and as
// large as before once it is fast.
func TestBatchesOfASlowServer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		store := w.slowRows()
		w.register(storetest.Single(), newGauge().work(time.Millisecond))
		p := w.start(Config{Slots: 5, TriggerTimeout: 5 * time.Minute})
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
	t.Parallel()
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

func TestPaceOfBatches(t *testing.T) {
	t.Parallel()
	var p pace
	now := time.Unix(1000, 0)
	failed := errors.New("failed")
	batch := func(took time.Duration, err error) int {
		rows := p.begin(500, now)
		now = now.Add(took)
		p.ended(rows, err, now)
		return rows
	}
	require.Equal(t, 500, batch(time.Second, nil))
	require.Equal(t, 500, batch(time.Second, failed), "that was something else")
	require.Equal(t, 500, batch(paceLong, nil), "slow, and done")
	require.Equal(t, 500, batch(storeTimeout, failed))
	require.Equal(t, 125, p.begin(500, now))
	now = now.Add(2 * paceLong) // given up with its actor
	require.Equal(t, 31, batch(paceLong, nil))
	require.Equal(t, 31, batch(0, failed))
	for _, rows := range []int{31, 62, 124, 248, 496, 500, 500} {
		require.Equal(t, rows, batch(paceLong-1, nil))
	}
	require.Equal(t, 500, p.begin(500, now))
	now = now.Add(time.Hour) // no call takes so long
	require.Equal(t, 500, batch(0, nil))
	for range 10 {
		batch(storeTimeout, failed)
	}
	require.Equal(t, 1, batch(0, nil))
	for range 10 {
		batch(0, nil)
	}
	require.Equal(t, 500, batch(0, persistence.ErrNoResources))
	require.Equal(t, 125, batch(0, nil), "it has no room for as many")
}
