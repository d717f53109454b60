package troupe_test

import (
	"context"
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

	left atomic.Int64
}

func (f *flaky) Run(ctx context.Context, tenant string, run troupe.RunID) (persistence.RunRow, error) {
	row, err := f.Store.Run(ctx, tenant, run)
	if row.State.Terminal() && f.left.Add(-1) >= 0 {
		return persistence.RunRow{}, persistence.ErrUnavailable
	}
	return row, err
}

// The hint that a run has ended comes once. If the row cannot be read just
// then, because a connection broke, the next sweep is far away.
func TestAwaitReadsAgainWhatItCouldNot(t *testing.T) {
	virtual(t, func(t *testing.T) {
		store := memory.New(memory.Options{Now: time.Now})
		broken := &flaky{Store: store}
		broken.left.Store(3)
		engine, err := troupe.NewOnStore(calm(), broken, local.NewBus(store))
		require.NoError(t, err)
		handle := join(t, engine, single(number))
		begun := time.Now()
		_, err = handle.Run(t.Context(), "")
		require.NoError(t, err)
		require.Less(t, time.Since(begun), time.Minute)
	})
}
