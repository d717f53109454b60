package actors

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

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
