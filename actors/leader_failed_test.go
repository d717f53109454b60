package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence/storetest"
)

// A leader that failed lets others go first: what it failed on may be its own. Alone it
// leads again.
func TestALeaderThatFailedGoesLast(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), newGauge().work(0))
		pods := []*Pod{w.start(Config{})}
		pass(time.Second)
		kill(pods[0], "leader")
		pass(5 * time.Second)
		require.True(t, pods[0].Stats().Leading, "alone")
		pods = append(pods, w.start(Config{}))
		pass(10 * time.Second)
		for round := range 6 {
			leader, other := pods[round%2], pods[(round+1)%2]
			require.True(t, leader.Stats().Leading)
			kill(leader, "leader")
			pass(time.Second)
			require.True(t, other.Stats().Leading, "round %d", round)
			pass(time.Minute) // failures are forgotten
		}
	})
}
