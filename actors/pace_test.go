package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// slowRows is a store whose server takes a while for each row.
type slowRows struct {
	persistence.Store

	each    atomic.Int64 // time.Duration
	largest atomic.Int64 // batch asked for lately
}

func (s *slowRows) take(ctx context.Context, rows int) error {
	s.largest.Store(int64(rows))
	timer := time.NewTimer(time.Duration(s.each.Load()) * time.Duration(rows))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (s *slowRows) TriggerRuns(ctx context.Context, rows []persistence.Trigger, take persistence.Taking) (persistence.Triggers, error) {
	if err := s.take(ctx, len(rows)); err != nil {
		return persistence.Triggers{}, err
	}
	return s.Store.TriggerRuns(ctx, rows, take)
}

func (s *slowRows) FireTimers(ctx context.Context, epoch int64, limit int) (persistence.Fired, error) {
	if err := s.take(ctx, limit); err != nil {
		return persistence.Fired{}, err
	}
	return s.Store.FireTimers(ctx, epoch, limit)
}

// Where a server is slow for each row, batches become as small as it can end in time, and as
// large as before once it is fast.
func TestBatchesOfASlowServer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		store := &slowRows{Store: w.store}
		w.faults.Store = store
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
		store.each.Store(0)
		for range 50 {
			crowd(20)
		}
		w.completed(crowd(400)...)
		require.Greater(t, store.largest.Load(), int64(50))
	})
}

func TestTimersOfASlowServer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		store := &slowRows{Store: w.store}
		store.each.Store(int64(200 * time.Millisecond))
		w.faults.Store = store
		w.register(storetest.Nap(time.Second), newGauge().work(time.Millisecond))
		p := w.start(Config{Slots: 5})
		var runs []workflow.RunID
		for range 50 {
			runs = append(runs, w.trigger(p, "nap1s"))
		}
		pass(3 * time.Minute)
		w.completed(runs...)
		require.Less(t, store.largest.Load(), int64(50))
	})
}

func TestPaceOfBatches(t *testing.T) {
	t.Parallel()
	var p pace
	now := time.Unix(1000, 0)
	batch := func(took time.Duration, ok bool) int {
		rows := p.begin(500, now)
		now = now.Add(took)
		if ok {
			p.ended(rows, now)
		} else {
			p.ended(0, now)
		}
		return rows
	}
	require.Equal(t, 500, batch(time.Second, true))
	require.Equal(t, 500, batch(time.Second, false), "that was something else")
	require.Equal(t, 500, batch(storeTimeout, false))
	require.Equal(t, 125, p.begin(500, now))
	now = now.Add(2 * paceLong) // given up with its actor
	require.Equal(t, 31, batch(4*time.Second, true))
	require.Equal(t, 31, batch(paceLong, true))
	require.Equal(t, 7, batch(time.Second, true))
	require.Equal(t, 7, batch(0, false))
	for _, rows := range []int{7, 14, 28, 56, 112, 224, 448, 500, 500} {
		require.Equal(t, rows, batch(paceQuick-1, true))
	}
	for range 10 {
		batch(storeTimeout, false)
	}
	require.Equal(t, 1, batch(0, true))
}
