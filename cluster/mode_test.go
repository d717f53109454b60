package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
)

func TestDecideFeed(t *testing.T) {
	t.Parallel()
	times := cluster.DefaultFeedTimes()
	const quiet, silent = 200 * time.Millisecond, 1500 * time.Millisecond
	stream := cluster.Feed{Mode: cluster.ModeStream, Read: true, Sweep: 30 * time.Second}
	relayed := cluster.Feed{Mode: cluster.ModeRelay, Sweep: 30 * time.Second}
	none := cluster.Feed{Mode: cluster.ModeNone, Notify: true, Sweep: time.Second}
	noneReading := cluster.Feed{Mode: cluster.ModeNone, Read: true, Notify: true, Sweep: time.Second}
	for name, c := range map[string]struct {
		view cluster.View
		want cluster.Feed
	}{
		"a leader of two with a stream":     {cluster.View{Leading: true, Streaming: true, Pods: 2}, stream},
		"a leader of three relays":          {cluster.View{Leading: true, Streaming: true, Pods: 3}, cluster.Feed{Mode: cluster.ModeRelay, Read: true, Relay: true, Sweep: 30 * time.Second}},
		"a leader without a stream":         {cluster.View{Leading: true, Pods: 2}, noneReading},
		"a leader of many without a stream": {cluster.View{Leading: true, Pods: 9}, noneReading},
		"a follower told to stream":         {cluster.View{Streaming: true, Pods: 2, Heard: true, Silence: quiet, Said: cluster.ModeStream}, stream},
		"told to stream, stream broken":     {cluster.View{Pods: 2, Heard: true, Silence: quiet, Said: cluster.ModeStream}, noneReading},
		"told of the relay":                 {cluster.View{Pods: 3, Heard: true, Silence: quiet, Said: cluster.ModeRelay}, relayed},
		"told of the relay, still reading":  {cluster.View{Streaming: true, Pods: 3, Heard: true, Silence: quiet, Said: cluster.ModeRelay}, relayed},
		"the relaying leader falls silent":  {cluster.View{Pods: 3, Heard: true, Silence: silent, Said: cluster.ModeRelay}, none},
		"the leader of two falls silent":    {cluster.View{Streaming: true, Pods: 2, Heard: true, Silence: silent, Said: cluster.ModeStream}, stream},
		"told that there is no stream":      {cluster.View{Pods: 2, Heard: true, Silence: quiet, Said: cluster.ModeNone}, none},
		"nothing heard yet, few pods":       {cluster.View{Streaming: true, Pods: 1}, stream},
		"nothing heard yet, no stream yet":  {cluster.View{Pods: 1}, noneReading},
		"nothing heard yet, many pods":      {cluster.View{Pods: 3}, none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, cluster.DecideFeed(times, c.view))
		})
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"stream", "relay", "none", "mode(9)"},
		[]string{cluster.ModeStream.String(), cluster.ModeRelay.String(), cluster.ModeNone.String(), cluster.Mode(9).String()})
	var kinds []string
	for k := cluster.WakeReady; k <= cluster.WakeCanceling+1; k++ {
		kinds = append(kinds, k.String())
	}
	require.Equal(t, []string{"ready", "submitted", "timer", "ended", "canceling", "wake(6)"}, kinds)
}
