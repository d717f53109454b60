package peer_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/bench/internal/peer"
)

func TestSpreadDoesEverything(t *testing.T) {
	t.Parallel()
	var sum atomic.Int64
	items := make([]int64, 100)
	for i := range items {
		items[i] = int64(i)
	}
	require.NoError(t, peer.Spread(t.Context(), 7, items, func(n int64) error {
		sum.Add(n)
		return nil
	}))
	require.Equal(t, int64(4950), sum.Load())
}

func TestSpreadReturnsTheFirstErrorAndStops(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	broken := errors.New("broken")
	err := peer.Spread(t.Context(), 2, make([]int, 1000), func(int) error {
		calls.Add(1)
		return broken
	})
	require.ErrorIs(t, err, broken)
	require.LessOrEqual(t, calls.Load(), int64(2), "each caller ends with its first error")
}
