package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/cluster/postgres"
	"github.com/troupe-dev/troupe/workflow"
)

func TestPayloadsRoundTrip(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]cluster.Notice{
		"nothing":   {From: 1 << 50},
		"a ping":    {From: 1, Ping: &cluster.Ping{Epoch: 9, Mode: cluster.ModeStream, Pods: 2, Relayed: 77}},
		"the last":  {From: 1, Ping: &cluster.Ping{Epoch: 9, Resigned: true}},
		"a queue":   {From: 1, Wakes: []cluster.Wake{{Kind: cluster.WakeReady, Queue: "a b,c\x00%é\n", Count: 3, Key: 1<<64 - 1}}},
		"any queue": {From: 1, Wakes: []cluster.Wake{{Kind: cluster.WakeReady}}},
		"any run":   {From: 1, Wakes: []cluster.Wake{{Kind: cluster.WakeEnded}, {Kind: cluster.WakeCanceling}}},
		"timers":    {From: 1, Wakes: []cluster.Wake{{Kind: cluster.WakeTimer}, {Kind: cluster.WakeTimer, At: time.UnixMicro(-5).UTC()}}},
		"all": {From: 1, Ping: &cluster.Ping{Epoch: 1}, Wakes: []cluster.Wake{
			{Kind: cluster.WakeSubmitted}, {Kind: cluster.WakeEnded, Run: workflow.RunID{1}}, {Kind: cluster.WakeCanceling, Run: workflow.RunID{15: 2}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			texts := postgres.Payloads(want)
			require.Len(t, texts, 1)
			got, err := postgres.ParsePayload(texts[0])
			require.NoError(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q (-want +got):\n%s", texts[0], diff)
			}
		})
	}
}

func TestWhatDoesNotFitIsNotNamed(t *testing.T) {
	t.Parallel()
	n := cluster.Notice{From: 1, Wakes: []cluster.Wake{{Kind: cluster.WakeReady, Queue: strings.Repeat("é", 5000), Count: 2}, {Kind: 99}}}
	texts := postgres.Payloads(n)
	require.Len(t, texts, 1)
	got, err := postgres.ParsePayload(texts[0])
	require.NoError(t, err)
	require.Equal(t, []cluster.Wake{{Kind: cluster.WakeReady, Count: 2}}, got.Wakes)

	n = cluster.Notice{From: 1}
	for i := range 100_000 {
		n.Wakes = append(n.Wakes, cluster.Wake{Kind: cluster.WakeEnded, Run: workflow.RunID{1, byte(i >> 16), byte(i >> 8), byte(i)}})
	}
	texts = postgres.Payloads(n)
	require.Len(t, texts, 1)
	got, err = postgres.ParsePayload(texts[0])
	require.NoError(t, err)
	require.Equal(t, []cluster.Wake{{Kind: cluster.WakeEnded}}, got.Wakes)
}

func TestTheLargestDrainFitsIntoOneNotice(t *testing.T) {
	t.Parallel()
	limits := cluster.DefaultWakeLimits()
	c := cluster.NewCoalescer(limits)
	for i := range limits.Runs {
		run := workflow.RunID{1, byte(i >> 8), byte(i)}
		c.Add(cluster.Wake{Kind: cluster.WakeEnded, Run: run}, cluster.Wake{Kind: cluster.WakeCanceling, Run: run})
	}
	for i := range limits.Queues {
		c.Add(cluster.Wake{Kind: cluster.WakeReady, Queue: strings.Repeat("q", 255) + string(rune('0'+i)), Count: 1 << 40, Key: 1<<64 - 1})
	}
	want := c.Drain()
	var got []cluster.Wake
	for _, text := range postgres.Payloads(cluster.Notice{From: 1 << 62, Ping: &cluster.Ping{Epoch: 1 << 62}, Wakes: want}) {
		require.Less(t, len(text), 8000)
		n, err := postgres.ParsePayload(text)
		require.NoError(t, err)
		got = append(got, n.Wakes...)
	}
	require.Equal(t, want, got)
}

func TestForeignTextsAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "1", "2 1", "1 x", "1 1 ", "1 1  s", "1 1 p", "1 1 p1,2,3,4", "1 1 p1,2,3,4,x",
		"1 1 r", "1 1 r1,2", "1 1 rx,2,q", "1 1 r1,_,q", "1 1 r1,2,%zz", "1 1 tx", "1 1 eAAAA", "1 1 c!",
	} {
		_, err := postgres.ParsePayload(text)
		require.Error(t, err, "%q", text)
	}
	n, err := postgres.ParsePayload("1 7 z99 p1,2,3,4,0,new s,new")
	require.NoError(t, err, "words of a later version")
	require.Equal(t, int64(3), int64(n.Ping.Pods))
}

func FuzzParsePayload(f *testing.F) {
	f.Add("1 1 p1,2,3,4,1 r1,2,q s t5 e c")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := postgres.ParsePayload(text)
		if err != nil {
			return
		}
		var again cluster.Notice
		for _, text := range postgres.Payloads(n) {
			part, err := postgres.ParsePayload(text)
			require.NoError(t, err)
			again.From, again.Wakes = part.From, append(again.Wakes, part.Wakes...)
			if part.Ping != nil {
				again.Ping = part.Ping
			}
		}
		require.Equal(t, n, again)
	})
}
