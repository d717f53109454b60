package peer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/bench/internal/peer"
)

// What the peers make of layers relies on it.
func TestLayersBeginAndEndWithOneStepAndAlternate(t *testing.T) {
	t.Parallel()
	for shape, steps := range map[peer.Shape]int{peer.Single: 1, peer.Diamond: 4, peer.Chain: 100, peer.FanOut: 1002, peer.Machine: 20} {
		layers := shape.Layers()
		require.Equal(t, 1, layers[0], shape)
		require.Equal(t, 1, layers[len(layers)-1], shape)
		for i := range len(layers) - 1 {
			require.Equal(t, 1, min(layers[i], layers[i+1]), shape)
		}
		require.Equal(t, steps, shape.Steps(), shape)
	}
	require.Empty(t, peer.Orders.Layers())
}
