package vitals

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
)

func TestBatchLimit(t *testing.T) {
	t.Parallel()
	var l BatchLimit
	now := time.Unix(1000, 0)
	failed := errors.New("failed")
	batch := func(took time.Duration, err error) int {
		rows := l.Begin(500, now)
		now = now.Add(took)
		l.Ended(rows, now, err)
		return rows
	}
	require.Equal(t, 500, batch(time.Second, nil))
	require.Equal(t, 500, batch(time.Second, failed), "that was something else")
	require.Equal(t, 500, batch(SlowBatch, nil), "slow, and done")
	require.Equal(t, 500, batch(30*time.Second, failed))
	require.Equal(t, 125, l.Begin(500, now))
	now = now.Add(2 * SlowBatch) // given up with its actor
	require.Equal(t, 31, batch(SlowBatch, nil))
	require.Equal(t, 31, batch(0, failed))
	for _, rows := range []int{31, 62, 124, 248, 496, 500, 500} {
		require.Equal(t, rows, batch(SlowBatch-1, nil))
	}
	require.Equal(t, 500, l.Begin(500, now))
	for range 10 {
		batch(30*time.Second, failed)
	}
	require.Equal(t, 1, batch(0, nil))
	for range 10 {
		batch(0, nil)
	}
	require.Equal(t, 500, batch(0, persistence.ErrNoResources))
	require.Equal(t, 125, batch(0, nil), "it has no room for as many")
}
