package cluster_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
)

func TestCampaignDelay(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		contender cluster.Contender
		want      time.Duration
	}{
		"on start":                          {cluster.Contender{}, 0},
		"on start, tried":                   {cluster.Contender{Tried: true}, 500 * ms},
		"tries are spread up":               {cluster.Contender{Tried: true, Jitter: 1}, 625 * ms},
		"tries are spread down":             {cluster.Contender{Tried: true, Jitter: -1}, 375 * ms},
		"a leader pings":                    {cluster.Contender{Heard: true, Silence: 100 * ms}, 2400 * ms},
		"a leader was silent":               {cluster.Contender{Heard: true, Silence: 2600 * ms}, 0},
		"silent, tried":                     {cluster.Contender{Heard: true, Silence: 2600 * ms, Tried: true}, 500 * ms},
		"tried, then it pinged again":       {cluster.Contender{Heard: true, Silence: 100 * ms, Tried: true}, 2400 * ms},
		"a leader resigned":                 {cluster.Contender{Heard: true, Silence: 1 * ms, Resigned: true}, 0},
		"resigned, another one was quicker": {cluster.Contender{Heard: true, Silence: 1 * ms, Resigned: true, Tried: true}, 500 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, cluster.CampaignDelay(cluster.DefaultCampaignTimes(), c.contender))
		})
	}
}

func TestStreamRetry(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	require.Equal(t, 250*time.Millisecond, cluster.StreamRetry(broken, 1))
	require.Equal(t, time.Second, cluster.StreamRetry(broken, 3))
	require.Equal(t, 10*time.Second, cluster.StreamRetry(broken, 1000))
	require.Equal(t, 10*time.Second, cluster.StreamRetry(fmt.Errorf("read: %w", cluster.ErrStreamUnavailable), 1))
}

func TestPingInterval(t *testing.T) {
	t.Parallel()
	require.Equal(t, 2*time.Second, cluster.PingInterval(time.Second, cluster.ModeSpared, 1), "no other pod hears it")
	require.Equal(t, time.Second, cluster.PingInterval(time.Second, cluster.ModeSpared, 2))
	require.Equal(t, time.Second, cluster.PingInterval(time.Second, cluster.ModeNone, 1), "another one was heard")
	require.Equal(t, time.Second, cluster.PingInterval(time.Second, cluster.ModeSpared, 0), "not counted")
}
