package acceptance

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cluster/local"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/memory"
)

// flaky fails reads of runs that have ended, a few times.
type flaky struct {
	persistence.Store

	left  atomic.Int64
	cause error
}

func (f *flaky) Run(ctx context.Context, tenant string, run troupe.RunID, without ...persistence.Without) (persistence.RunRow, error) {
	row, err := f.Store.Run(ctx, tenant, run, without...)
	if row.State.Terminal() && f.left.Add(-1) >= 0 {
		return persistence.RunRow{}, f.cause
	}
	return row, err
}

// The hint that a run has ended comes once. If the row cannot be read just
// then, because a connection broke, the next sweep is far away.
func TestAwaitReadsAgainWhatItCouldNot(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{
		"unavailable": persistence.ErrUnavailable, "conflict": persistence.ErrConflict, "bad row": persistence.ErrBadRow,
		"another one": errors.New("permission denied for table workflow_runs"),
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				store := memory.New(memory.Options{Now: time.Now})
				broken := &flaky{Store: store, cause: cause}
				broken.left.Store(3)
				engine, err := onStore(calm(), broken, local.NewBus(store))
				require.NoError(t, err)
				handle := join(t, engine, single(number))
				begun := time.Now()
				_, err = handle.Run(t.Context(), "")
				require.NoError(t, err)
				require.Less(t, time.Since(begun), time.Minute)
			})
		})
	}
}

// Await of a run that cannot be read ends with its context or with the engine, and
// with nothing else.
func TestAwaitEndsAlthoughNothingCanBeRead(t *testing.T) {
	virtual(t, func(t *testing.T) {
		store := memory.New(memory.Options{Now: time.Now})
		broken := &flaky{Store: store, cause: persistence.ErrConflict}
		broken.left.Store(math.MaxInt64)
		engine, err := onStore(calm(), broken, local.NewBus(store))
		require.NoError(t, err)
		handle := join(t, engine, single(number))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err = handle.Run(ctx, "")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		ends := make(chan error, 1)
		go func() {
			_, err := handle.Run(t.Context(), "")
			ends <- err
		}()
		time.Sleep(time.Hour)
		require.Empty(t, ends)
		require.NoError(t, engine.Stop(t.Context()))
		require.ErrorIs(t, <-ends, troupe.ErrNotStarted)
	})
}
