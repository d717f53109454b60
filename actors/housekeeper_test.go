package actors

import (
	"context"
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
