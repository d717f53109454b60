package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/cluster/postgres"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/workflow"
)

func TestNoticesReachEveryListener(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	sender := w.adapter(t, 1)
	listeners := []*heard[cluster.Notice]{listen(t, sender), listen(t, w.adapter(t, 2)), listen(t, w.adapter(t, 3))}
	notice := cluster.Notice{From: 1, Wakes: []cluster.Wake{
		{Kind: cluster.WakeReady, Queue: "first", Count: 4, Key: 1 << 63},
		{Kind: cluster.WakeSubmitted},
		{Kind: cluster.WakeTimer, At: time.Date(2031, 2, 3, 4, 5, 6, 789000, time.UTC)},
		{Kind: cluster.WakeEnded, Run: workflow.RunID{1, 2, 3}},
		{Kind: cluster.WakeCanceling, Run: workflow.RunID{4, 5, 6}},
	}}
	for range 2 { // the same again is not folded
		require.NoError(t, sender.Notify(t.Context(), notice))
		for _, l := range listeners {
			if diff := cmp.Diff(notice, l.next(t)); diff != "" {
				t.Errorf("notice (-want +got):\n%s", diff)
			}
		}
	}
	require.NoError(t, sender.Notify(t.Context(), cluster.Notice{From: 1}), "nothing to say")
}

func TestALargeNoticeArrivesInParts(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	h := listen(t, w.adapter(t, 2))
	sent := cluster.Notice{From: 1, Ping: &cluster.Ping{Epoch: 3}}
	for i := range 1000 {
		sent.Wakes = append(sent.Wakes, cluster.Wake{Kind: cluster.WakeEnded, Run: workflow.RunID{1, byte(i >> 8), byte(i)}})
	}
	require.NoError(t, w.adapter(t, 1).Notify(t.Context(), sent))
	var got []cluster.Wake
	for len(got) < len(sent.Wakes) {
		n := h.next(t)
		require.Equal(t, len(got) == 0, n.Ping != nil, "the ping comes once, first")
		got = append(got, n.Wakes...)
	}
	require.Equal(t, sent.Wakes, got)
}

func TestStrangeNotificationsAreIgnored(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	var l logs
	h := listen(t, w.adapter(t, 1, func(c *postgres.Config) { c.Logger = l.logger() }))
	w.exec(t, "select pg_notify('troupe_wake', x) from unnest(array['', 'hello', '2 1 s', '1 x s', '1 1 tx']) x")
	require.NoError(t, w.adapter(t, 2).Notify(t.Context(), cluster.Notice{From: 2, Wakes: []cluster.Wake{{Kind: cluster.WakeSubmitted}}}))
	require.Equal(t, int64(2), h.next(t).From)
	require.Equal(t, 1, l.count("notification ignored"))
}

func TestAListenerEnds(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	h := listen(t, w.adapter(t, 1))
	w.terminate(t, "listener")
	require.ErrorContains(t, h.end(t), "57P01")
	h = listen(t, w.adapter(t, 1))
	h.stop()
	require.ErrorIs(t, h.end(t), context.Canceled)
	eventually(t, "its session has ended", func() bool {
		return w.count(t, "select count(*) from pg_stat_activity where datname = current_database() and application_name like 'troupe listener%'") == 0
	})
}

// A connection that a proxy has forgotten stays open and says nothing.
func TestAListenerWhoseConnectionHasGoneSilentEnds(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	way := newPath(t, w.url)
	h := listen(t, w.adapter(t, 1, func(c *postgres.Config) { c.DirectURL, c.ListenQuiet = way.url, 300*time.Millisecond }))
	way.drop()
	require.ErrorContains(t, h.end(t), "the connection has gone silent")
}

// A session that receives nothing is pinged now and then, and hears what comes then.
func TestAListenerWhoseServerIsQuietGoesOn(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	a := w.adapter(t, 1, func(c *postgres.Config) { c.ListenQuiet = pgtest.Scale(time.Second, 5*time.Millisecond) })
	h := listen(t, a)
	for i := range 40 { // in `make test-full` some come while the server is asked
		eventually(t, "the listener has asked", func() bool {
			return w.count(t, "select count(*) from pg_stat_activity where application_name like 'troupe listener%' and query = '-- ping'") == 1
		})
		require.NoError(t, a.Notify(t.Context(), cluster.Notice{From: 1, Wakes: []cluster.Wake{{Kind: cluster.WakeReady, Queue: "first", Count: i + 1}}}))
		require.Equal(t, i+1, h.next(t).Wakes[0].Count)
	}
}

func TestForeignSQLWakesEveryPodThroughTheRelay(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	leader := w.adapter(t, 1)
	followers := []*heard[cluster.Notice]{listen(t, w.adapter(t, 2)), listen(t, w.adapter(t, 3)), listen(t, leader)}
	relay(t, leader)
	require.Equal(t, 1, w.slots(t), "one slot for all pods")
	w.exec(t, enqueue, 101, 3)
	for _, f := range followers {
		n := f.next(t)
		require.Equal(t, int64(1), n.From)
		require.Len(t, n.Wakes, 1)
		require.Equal(t, `mail, "fast" \ ü`, n.Wakes[0].Queue)
		require.Equal(t, 3, n.Wakes[0].Count)
	}
}

// relay does what the leader's feed does, without its pace.
func relay(tb testing.TB, leader *postgres.Adapter) {
	tb.Helper()
	begin(tb, func(ctx context.Context, connected func(), sink func(error)) error {
		return leader.Read(ctx, connected, func(wakes []cluster.Wake) {
			if err := leader.Notify(ctx, cluster.Notice{From: 1, Wakes: wakes}); err != nil {
				sink(err)
			}
		})
	})
}

func TestTwoSchemasDoNotMeet(t *testing.T) {
	t.Parallel()
	one := freshWorld(t)
	const odd = "select"
	two := newWorld(t, one.url, odd)
	a, b := one.adapter(t, 1), two.adapter(t, 1)

	require.Equal(t, int64(1), campaign(t, a).Epoch())
	require.Equal(t, int64(1), campaign(t, b).Epoch(), "each has a leader")

	sa, sb, la, lb := stream(t, a), stream(t, b), listen(t, a), listen(t, b)
	one.exec(t, enqueue, 100, 1)
	one.exec(t, "select pg_logical_emit_message(true, $1, '1 1 s')", postgres.Channel(one.schema))
	require.NoError(t, a.Notify(t.Context(), cluster.Notice{From: 1, Wakes: []cluster.Wake{{Kind: cluster.WakeSubmitted}}}))
	two.exec(t, enqueue, 101, 5)
	require.NoError(t, b.Notify(t.Context(), cluster.Notice{From: 1, Wakes: []cluster.Wake{{Kind: cluster.WakeTimer}}}))

	require.Equal(t, 5, sb.next(t)[0].Count, "the first that the second hears is its own")
	require.Equal(t, cluster.WakeTimer, lb.next(t).Wakes[0].Kind)
	wakes := gather(t, sa, 2)
	require.Equal(t, "ready 1, submitted 0", fmt.Sprintf("%s %d, %s %d", wakes[0].Kind, wakes[0].Count, wakes[1].Kind, wakes[1].Count))
	require.Equal(t, cluster.WakeSubmitted, la.next(t).Wakes[0].Kind)
	for _, quiet := range []int{len(sa.got), len(sb.got), len(la.got), len(lb.got)} {
		require.Zero(t, quiet)
	}
}
