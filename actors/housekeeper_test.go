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
type swamped struct {
	persistence.Store

	drops, purges, rotations atomic.Int64
}

func (s *swamped) ArchiveRuns(_ context.Context, _ int64, archive persistence.Archive) (persistence.Archived, error) {
	pass(10 * time.Millisecond)
	return persistence.Archived{Count: archive.Limit, Next: workflow.NewRunID(time.Now(), [10]byte{})}, nil
}

func (s *swamped) DropHistory(ctx context.Context, epoch int64, r persistence.Retention, by time.Time) (persistence.Dropped, error) {
	s.drops.Add(1)
	return s.Store.DropHistory(ctx, epoch, r, by)
}

func (s *swamped) RotateEvents(ctx context.Context, epoch int64, span time.Duration) (persistence.Rotated, error) {
	s.rotations.Add(1)
	return s.Store.RotateEvents(ctx, epoch, span)
}

func (s *swamped) PurgeDeadLetters(ctx context.Context, filter persistence.DeadFilter) (int, error) {
	s.purges.Add(1)
	return s.Store.PurgeDeadLetters(ctx, filter)
}

// However much there is to archive, other work is done when it is due.
func TestABacklogOfOneKindKeepsNoOtherWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		swamp := &swamped{Store: w.store}
		w.faults.Store = swamp
		w.start(Config{DeadLetterRetention: time.Hour})
		pass(time.Minute)
		require.Equal(t, int64(1), swamp.drops.Load())
		require.Equal(t, int64(1), swamp.purges.Load())
		pass(dropEvery)
		require.Equal(t, int64(2), swamp.drops.Load())
		require.Equal(t, int64(2), swamp.purges.Load())
		require.GreaterOrEqual(t, swamp.rotations.Load(), int64(2))
	})
}
