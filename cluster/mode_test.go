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
	untold := cluster.Feed{Mode: cluster.ModeStream, Read: true, Notify: true, Sweep: 30 * time.Second}
	relayed := cluster.Feed{Mode: cluster.ModeRelay, Sweep: 30 * time.Second}
	none := cluster.Feed{Mode: cluster.ModeNone, Notify: true, Sweep: time.Second}
	noneReading := cluster.Feed{Mode: cluster.ModeNone, Read: true, Notify: true, Sweep: time.Second}
	for name, c := range map[string]struct {
		view cluster.View
		want cluster.Feed
	}{
		"a leader of two with a stream":      {cluster.View{Leading: true, Streaming: true, Pods: 2, Waiting: 1}, stream},
		"a leader of three relays":           {cluster.View{Leading: true, Streaming: true, Pods: 3, Waiting: 1}, cluster.Feed{Mode: cluster.ModeRelay, Read: true, Relay: true, Sweep: 30 * time.Second}},
		"a leader without a stream":          {cluster.View{Leading: true, Pods: 2, Waiting: 1}, noneReading},
		"a leader of many without a stream":  {cluster.View{Leading: true, Pods: 9, Waiting: 1}, noneReading},
		"a follower told to stream":          {cluster.View{Streaming: true, Pods: 2, Heard: true, Silence: quiet, Said: cluster.ModeStream}, stream},
		"told to stream, stream broken":      {cluster.View{Pods: 2, Heard: true, Silence: quiet, Said: cluster.ModeStream}, noneReading},
		"told to stream, but there are many": {cluster.View{Pods: 3, Heard: true, Silence: quiet, Said: cluster.ModeStream}, none},
		"told of the relay":                  {cluster.View{Pods: 3, Heard: true, Silence: quiet, Said: cluster.ModeRelay}, relayed},
		"told of the relay, still reading":   {cluster.View{Streaming: true, Pods: 3, Heard: true, Silence: quiet, Said: cluster.ModeRelay}, relayed},
		"the relaying leader falls silent":   {cluster.View{Pods: 3, Heard: true, Silence: silent, Said: cluster.ModeRelay}, none},
		"the leader of two falls silent":     {cluster.View{Streaming: true, Pods: 2, Heard: true, Silence: silent, Said: cluster.ModeStream}, untold},
		"told that there is no stream":       {cluster.View{Pods: 2, Heard: true, Silence: quiet, Said: cluster.ModeNone}, none},
		"nothing heard yet, few pods":        {cluster.View{Streaming: true, Pods: 1}, untold},
		"nothing heard yet, no stream yet":   {cluster.View{Pods: 1}, noneReading},
		"nothing heard yet, many pods":       {cluster.View{Pods: 3}, none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.view.Counted = true
			require.Equal(t, c.want, cluster.DecideFeed(times, c.view))
		})
	}
	require.Equal(t, none, cluster.DecideFeed(times, cluster.View{Pods: 1}), "no pod was counted")
	require.Equal(t, none, cluster.DecideFeed(times, cluster.View{Pods: 1, Leading: true}), "no pod was counted")
}

func TestDecideFeedSpares(t *testing.T) {
	t.Parallel()
	times := cluster.DefaultFeedTimes()
	const sweep, rare, quiet = 5 * time.Second, 30 * time.Second, 200 * time.Millisecond
	spared := cluster.Feed{Mode: cluster.ModeSpared, Notify: true, Sweep: sweep}
	lingering := cluster.Feed{Mode: cluster.ModeSpared, Read: true, Notify: true, Sweep: sweep}
	relaying := cluster.Feed{Mode: cluster.ModeSpared, Read: true, Relay: true, Notify: true, Sweep: sweep}
	alone := cluster.Feed{Mode: cluster.ModeSpared, Alone: true, Sweep: rare}
	stream := cluster.Feed{Mode: cluster.ModeStream, Read: true, Sweep: rare}
	relay := cluster.Feed{Mode: cluster.ModeRelay, Read: true, Relay: true, Sweep: rare}
	reads := cluster.Feed{Mode: cluster.ModeNone, Read: true, Notify: true, Sweep: time.Second}
	for name, c := range map[string]struct {
		view cluster.View
		want cluster.Feed
	}{
		"alone, at once":                     {cluster.View{Pods: 1, Waiting: 1}, alone},
		"alone, and triggers in its own":     {cluster.View{Pods: 1, Waiting: 1, Submits: true}, reads},
		"alone since another left":           {cluster.View{Pods: 1, Waiting: 1, Streaming: true, Last: stream, For: 11 * time.Second}, cluster.Feed{Mode: cluster.ModeSpared, Alone: true, Read: true, Sweep: rare}},
		"alone no more, at once":             {cluster.View{Pods: 2, Waiting: 2, Last: alone, For: time.Second}, reads},
		"two that are busy":                  {cluster.View{Pods: 2, Streaming: true, Last: stream, For: 11 * time.Second}, lingering},
		"busy, and the stream is new":        {cluster.View{Pods: 2, Streaming: true, Last: stream, For: 9 * time.Second}, stream},
		"one of two waits":                   {cluster.View{Pods: 2, Waiting: 1, Streaming: true, Last: stream, For: time.Hour}, stream},
		"busy ones read on for a while":      {cluster.View{Pods: 2, Streaming: true, Last: lingering, For: 2 * time.Second}, lingering},
		"and then no more":                   {cluster.View{Pods: 2, Streaming: true, Last: lingering, For: 3 * time.Second}, spared},
		"one waits, too soon to read":        {cluster.View{Pods: 2, Waiting: 1, Last: spared, For: 9 * time.Second}, spared},
		"one waits, long enough":             {cluster.View{Pods: 2, Waiting: 1, Last: spared, For: 10 * time.Second}, reads},
		"one triggers in its own, too soon":  {cluster.View{Pods: 2, Submits: true, Last: spared, For: 9 * time.Second}, spared},
		"notices are refused, however soon":  {cluster.View{Pods: 2, Refused: true, Last: spared, For: time.Second}, reads},
		"many that are busy relay at first":  {cluster.View{Pods: 5, Streaming: true, Last: relay, For: 11 * time.Second}, relaying},
		"so many that notifying costs more":  {cluster.View{Pods: 9, Streaming: true, Last: relay, For: time.Hour}, relay},
		"a new leader of busy pods":          {cluster.View{Pods: 5, Last: spared, For: time.Second}, spared},
		"a new leader that does not read":    {cluster.View{Pods: 2, Last: cluster.Feed{Mode: cluster.ModeNone}, For: time.Second}, spared},
		"read again, and busy soon":          {cluster.View{Pods: 2, Last: reads, For: time.Second}, reads},
		"a pod joins busy ones, and waits":   {cluster.View{Pods: 3, Waiting: 1, Last: spared, For: time.Second}, spared},
		"all others left while it was busy":  {cluster.View{Pods: 1, Last: spared, For: time.Second}, alone},
		"the ninth pod joins eight busy one": {cluster.View{Pods: 9, Last: spared, For: 10 * time.Second}, reads},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.view.Leading, c.view.Counted = true, true
			require.Equal(t, c.want, cluster.DecideFeed(times, c.view))
		})
	}
	told := cluster.View{Counted: true, Pods: 2, Waiting: 2, Heard: true, Silence: quiet, Said: cluster.ModeSpared}
	require.Equal(t, spared, cluster.DecideFeed(times, told), "a follower does as it is told")
	told.Streaming, told.Last = true, stream
	require.Equal(t, lingering, cluster.DecideFeed(times, told), "and reads on for a while")
	told.Last, told.For = lingering, times.Linger
	require.Equal(t, spared, cluster.DecideFeed(times, told))
	told.Streaming, told.Silence, told.Last = false, times.Silence, spared
	require.Equal(t, reads, cluster.DecideFeed(times, told), "the leader falls silent")
}

func TestBusy(t *testing.T) {
	t.Parallel()
	require.True(t, cluster.Busy(0, 0, 5*time.Second), "no slot is free")
	require.True(t, cluster.Busy(10, 50, 5*time.Second), "ten claims a second")
	require.False(t, cluster.Busy(10, 49, 5*time.Second))
	require.False(t, cluster.Busy(1, 0, 5*time.Second))
}

func TestNotifyDelay(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	require.Equal(t, 4*ms, cluster.NotifyDelay(ms, 1, 1))
	require.Zero(t, cluster.NotifyDelay(time.Second, 1, 1))
	require.Equal(t, 5*ms, cluster.NotifyDelay(0, 25, 1))
	require.Equal(t, 20*ms, cluster.NotifyDelay(0, 100, 1), "each pod hears each")
	require.Equal(t, 40*ms, cluster.NotifyDelay(0, 8, 8), "200 a second of all writers")
	require.Equal(t, time.Second, cluster.NotifyDelay(0, 1000, 1000))
}

func TestNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"stream", "relay", "none", "spared", "mode(9)"},
		[]string{cluster.ModeStream.String(), cluster.ModeRelay.String(), cluster.ModeNone.String(), cluster.ModeSpared.String(), cluster.Mode(9).String()})
	var kinds []string
	for k := cluster.WakeReady; k <= cluster.WakeCanceling+1; k++ {
		kinds = append(kinds, k.String())
	}
	require.Equal(t, []string{"ready", "submitted", "timer", "ended", "canceling", "wake(6)"}, kinds)
}
