package actors

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// Terms that are short keep no run that has ended out of history, and no
// history from being dropped: otherwise the tables would grow for as long as
// leaders come and go.
func TestShortTermsDoNotStarveHistory(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), newGauge().work(time.Millisecond))
		config := Config{Retention: persistence.Retention{time.Minute, time.Minute, time.Minute}}
		leader := w.start(config)
		run := w.trigger(leader, "single")
		w.completed(run)
		for range 10 {
			next := w.start(config)
			pass(30 * time.Second)
			leader.Kill()
			leader = next
		}
		_, err := w.store.Run(t.Context(), "", run)
		require.ErrorIs(t, err, persistence.ErrRunNotFound, "the run is kept for a minute, and five have passed")
	})
}

// swamped is a store that never comes to the end of archiving: each call takes
// a moment, moves as much as it may, and knows of more.
type swamped struct{ persistence.Store }

func (s *swamped) ArchiveRuns(_ context.Context, _ int64, archive persistence.Archive) (persistence.Archived, error) {
	pass(10 * time.Millisecond)
	return persistence.Archived{Count: archive.Limit, Next: workflow.NewRunID(time.Now(), [10]byte{})}, nil
}

// However much there is to archive, other work is done when it is due.
func TestABacklogOfOneKindKeepsNoOtherWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.faults.Store = &swamped{w.store}
		w.start(Config{DeadLetterRetention: time.Hour})
		pass(time.Minute)
		require.Equal(t, 1, w.count("drop"))
		require.Equal(t, 1, w.count("purge"))
		pass(dropEvery)
		require.Equal(t, 2, w.count("drop"))
		require.Equal(t, 2, w.count("purge"))
		require.GreaterOrEqual(t, w.count("rotate"), 2)
	})
}

// diskError is the answer of a server that cannot read a block.
type diskError struct{}

func (diskError) Error() string    { return "could not read block 7" }
func (diskError) SQLState() string { return "58030" }

// referred is a store in which a foreign key refers to one ended run.
type referred struct{ persistence.Store }

func (s *referred) ArchiveRuns(ctx context.Context, epoch int64, archive persistence.Archive) (persistence.Archived, error) {
	out, err := s.Store.ArchiveRuns(ctx, epoch, archive)
	out.Refused, out.RefusedFor = []workflow.RunID{{1}}, errors.New("violates foreign key constraint of_run")
	return out, err
}

// Runs that are kept out of history hold up no others, and are said.
func TestRunsThatAreKeptOutOfHistoryAreSaid(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.faults.Store = &referred{w.store}
		p := w.single(newGauge().work(time.Millisecond), Config{})
		w.completed(w.trigger(p, "single"))
		pass(5 * time.Minute)
		require.Contains(t, p.Stats().Degraded, "of_run")
		require.True(t, p.Stats().Ready)
	})
}

// A leader whose calls of one kind are rejected does all other work.
func TestARefusedCallKeepsALeaderFromNothingElse(t *testing.T) {
	t.Parallel()
	refused := fmt.Errorf("%w: %w", persistence.ErrUnavailable, diskError{})
	for call, err := range map[string]error{"claim": refused, "expire": errors.New("an index is damaged")} {
		t.Run(call, bubble(func(t *testing.T, w *world) {
			w.faults.failBefore(failing(call, err))
			w.single(newGauge().work(time.Millisecond), Config{})
			pass(10 * time.Minute)
			require.GreaterOrEqual(t, w.count("expire"), 30, "expiries")
			require.GreaterOrEqual(t, w.count("park"), 8, "tasks that no pod can execute are still parked")
			require.GreaterOrEqual(t, w.count("rotate"), 4, "rotations")
			w.faults.failBefore(nil)
		}))
	}
}

// firing is a store whose answers to FireTimers are changed.
type firing struct {
	persistence.Store

	change func(fired persistence.Fired) persistence.Fired
}

func (s *firing) FireTimers(ctx context.Context, epoch int64, limit int) (persistence.Fired, error) {
	fired, err := s.Store.FireTimers(ctx, epoch, limit)
	return s.change(fired), err
}

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

// If more timers are due than a call could fire, the next call comes at once.
func TestThereIsMoreThanACallCouldDo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var parts atomic.Int64 // calls that say that more timers are due
		w.pool = &firing{w.store, func(fired persistence.Fired) persistence.Fired {
			fired.More = parts.Add(-1) >= 0
			return fired
		}}
		w.register(storetest.Nap(5*time.Second), newGauge().work(time.Millisecond))
		p := w.start(Config{})
		run := w.trigger(p, "nap5s")
		pass(time.Second)
		parts.Store(1000)
		w.ended(run)
		require.Less(t, parts.Load(), int64(0))
		pass(10 * time.Millisecond)
		calls := parts.Load()
		pass(time.Second)
		require.Greater(t, parts.Load(), calls-5, "and then none")
	})
}

func TestRemovedTimersAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var told atomic.Bool
		w.pool = &firing{w.store, func(fired persistence.Fired) persistence.Fired {
			if !told.Swap(true) {
				fired.Orphans = 3
			}
			return fired
		}}
		p := w.start(Config{})
		pass(time.Second)
		require.EqualValues(t, 3, p.rt.recorder.value(MetricTimersOrphaned))
	})
}
