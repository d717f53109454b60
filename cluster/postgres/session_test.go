package postgres

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
)

// A session outlives the longest wait of its leader between two pings.
func TestASessionOutlivesTheTimeBetweenPings(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for _, ping := range []time.Duration{0, 250 * time.Millisecond, time.Second, 5 * time.Second, time.Hour} {
		timeout := Config{LeaderPing: ping}.withDefaults().SessionTimeout
		for _, mode := range []cluster.Mode{cluster.ModeSpared, cluster.ModeNone} {
			for pods := range 3 {
				require.GreaterOrEqual(t, timeout-cluster.PingInterval(ping, mode, pods), time.Second, "%v, %v, %d pods", ping, mode, pods)
			}
		}
	}
	require.Equal(t, 3*time.Second, Config{LeaderPing: time.Second}.withDefaults().SessionTimeout)
	require.Equal(t, time.Minute, Config{LeaderPing: time.Second, SessionTimeout: time.Minute}.withDefaults().SessionTimeout)
	longest := Config{LeaderPing: 100 * year}.withDefaults().SessionTimeout
	require.Equal(t, int64(math.MaxInt32), longest.Milliseconds(), "the server takes no more")
}
