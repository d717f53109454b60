package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// lockedTimers is a store in which the run of the one due timer is locked.
type lockedTimers struct {
	persistence.Store

	locked atomic.Bool
	calls  atomic.Int64
}

func (s *lockedTimers) FireTimers(ctx context.Context, epoch int64, limit int) (persistence.Fired, error) {
	if !s.locked.Load() {
		return s.Store.FireTimers(ctx, epoch, limit)
	}
	s.calls.Add(1)
	now := time.Now()
	return persistence.Fired{Now: now, Next: now.Add(-time.Second)}, nil
}

// A due timer whose run is locked is tried with backoff, and fires soon after the release.
func TestLockedTimerIsTriedWithBackoff(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store := &lockedTimers{Store: w.store}
		w.pool = store
		w.register(storetest.Nap(5*time.Second), newGauge().work(time.Millisecond))
		p := w.start(Config{})
		run := w.trigger(p, "nap5s")
		pass(time.Second)
		store.locked.Store(true)
		pass(10 * time.Second)
		first := store.calls.Swap(0)
		require.Less(t, first, int64(40), "it doubles from 20 ms")
		pass(10 * time.Second)
		require.InDelta(t, 10*time.Second/(timerLocked<<timerPatience), store.calls.Load(), 2)
		store.locked.Store(false)
		began := time.Now()
		w.ended(run)
		require.LessOrEqual(t, time.Since(began), timerLocked<<timerPatience+100*time.Millisecond)
	})
}

// moreTimers is a store of which some calls say that more timers are due.
type moreTimers struct {
	persistence.Store

	parts atomic.Int64
}

func (s *moreTimers) FireTimers(ctx context.Context, epoch int64, limit int) (persistence.Fired, error) {
	fired, err := s.Store.FireTimers(ctx, epoch, limit)
	fired.More = s.parts.Add(-1) >= 0
	return fired, err
}

// If more timers are due than a call could fire, the next call comes at once.
func TestThereIsMoreThanACallCouldDo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store := &moreTimers{Store: w.store}
		w.pool = store
		w.register(storetest.Nap(5*time.Second), newGauge().work(time.Millisecond))
		p := w.start(Config{})
		run := w.trigger(p, "nap5s")
		pass(time.Second)
		store.parts.Store(1000)
		w.ended(run)
		require.Less(t, store.parts.Load(), int64(0))
		pass(10 * time.Millisecond)
		calls := store.parts.Load()
		pass(time.Second)
		require.Greater(t, store.parts.Load(), calls-5, "and then none")
	})
}

// orphans is a store that removes timers of deleted runs in its next call.
type orphans struct {
	persistence.Store

	next atomic.Int64
}

func (s *orphans) FireTimers(ctx context.Context, epoch int64, limit int) (persistence.Fired, error) {
	fired, err := s.Store.FireTimers(ctx, epoch, limit)
	fired.Orphans = int(s.next.Swap(0))
	return fired, err
}

func TestRemovedTimersAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store := &orphans{Store: w.store}
		store.next.Store(3)
		w.pool = store
		p := w.start(Config{})
		pass(time.Second)
		require.EqualValues(t, 3, p.rt.recorder.value(MetricTimersOrphaned))
	})
}
