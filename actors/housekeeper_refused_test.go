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

// diskError is the answer of a server that cannot read a block.
type diskError struct{}

func (diskError) Error() string    { return "could not read block 7" }
func (diskError) SQLState() string { return "58030" }

// choosy is a store that refuses some kinds of calls, and counts a leader's.
type choosy struct {
	persistence.Store

	claim, expire              error
	expired, parked, rotations atomic.Int64
}

func (s *choosy) ClaimTasks(ctx context.Context, request persistence.ClaimRequest) (persistence.Claimed, error) {
	if s.claim != nil {
		return persistence.Claimed{}, s.claim
	}
	return s.Store.ClaimTasks(ctx, request)
}

func (s *choosy) ExpirePods(ctx context.Context, epoch int64, maxLost, limit int, by time.Time) (persistence.Expired, error) {
	s.expired.Add(1)
	if s.expire != nil {
		return persistence.Expired{}, s.expire
	}
	return s.Store.ExpirePods(ctx, epoch, maxLost, limit, by)
}

func (s *choosy) ParkTasks(ctx context.Context, epoch int64, limit int) (persistence.Parked, error) {
	s.parked.Add(1)
	return s.Store.ParkTasks(ctx, epoch, limit)
}

func (s *choosy) RotateEvents(ctx context.Context, epoch int64, span time.Duration) (persistence.Rotated, error) {
	s.rotations.Add(1)
	return s.Store.RotateEvents(ctx, epoch, span)
}

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
	for name, store := range map[string]*choosy{
		"claims":   {claim: refused},
		"expiries": {expire: errors.New("an index is damaged")},
	} {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			w.register(storetest.Single(), newGauge().work(time.Millisecond))
			store.Store = w.store
			w.faults.Store = store
			w.start(Config{})
			pass(10 * time.Minute)
			require.GreaterOrEqual(t, store.expired.Load(), int64(30), "expiries")
			require.GreaterOrEqual(t, store.parked.Load(), int64(8), "tasks that no pod can execute are still parked")
			require.GreaterOrEqual(t, store.rotations.Load(), int64(4), "rotations")
		}))
	}
}
