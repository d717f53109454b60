package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// calm makes it long ago that something was held.
func calm(k *kit) {
	past := clock.System{}.Now().Add(-strainedFor)
	k.store.strained.at.Store(&past)
	k.store.strained.left.Store(&past)
}

// While one transaction goes on to hold something nobody waits for it again; for what
// one after the other holds somebody does.
func TestWhoHoldsForLongIsWaitedForOnce(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	type call func(k *kit, pod int64, running []persistence.Grant)
	record := func(k *kit, pod int64, running []persistence.Grant) {
		require.Equal(k.t, lifecycle.Busy, k.send(k.completion(pod, running...))[0])
	}
	trigger := func(k *kit, _ int64, _ []persistence.Grant) {
		require.Equal(k.t, persistence.KeyBusy, k.ask(k.draft(g, "a", 1)...)[0].Result)
	}
	claim := func(k *kit, pod int64, _ []persistence.Grant) { require.Empty(k.t, k.claim(pod, 10)) }
	runs := func(k *kit) func() {
		return k.hold("select from {schema}.workflow_runs where tenant = 'a' for update")
	}
	counters := func(k *kit) func() { return k.holdCounters("a") }
	for name, c := range map[string]struct {
		hold func(*kit) func()
		does call
	}{
		"completions, runs":     {runs, record},
		"completions, counters": {counters, record},
		"triggers, counters":    {counters, trigger},
		"claims, runs":          {runs, claim},
		"claims, counters":      {counters, claim},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(openDatabase(t, Options{}), g)
			pod := k.join(time.Hour)
			k.start(g, "a", 2)
			running := k.claim(pod, 1)
			release := c.hold(k)
			strained := &k.store.strained
			almostOver := func() time.Time {
				at := clock.System{}.Now().Add(time.Second - strainedFor)
				strained.at.Store(&at)
				return at
			}
			at := almostOver()
			c.does(k, pod, running)
			require.Equal(t, at, *strained.at.Load(), "it may be that it is merely busy")
			for holder, met := range strained.holders.seen {
				met.first = met.first.Add(-heldLong)
				strained.holders.seen[holder] = met
			}
			release()
			release = c.hold(k)
			at = almostOver()
			c.does(k, pod, running)
			require.Equal(t, at, *strained.at.Load(), "that is another one")
			for holder, met := range strained.holders.seen {
				met.first = met.first.Add(-heldLong)
				strained.holders.seen[holder] = met
			}
			c.does(k, pod, running)
			require.WithinDuration(t, clock.System{}.Now().Add(heldGone-strainedFor), *strained.at.Load(), heldGone/2)
			require.True(t, strained.is())
			release()
			k.finish(pod)
			k.complete(pod, running...)
			k.requireSound()
		})
	}
}

func TestHolders(t *testing.T) {
	t.Parallel()
	var h holders
	now := clock.System{}.Now()
	require.False(t, h.meet(7, now))
	require.False(t, h.meet(7, now.Add(heldLong-1)))
	require.True(t, h.meet(7, now.Add(heldLong)))
	require.False(t, h.meet(8, now.Add(heldLong)))
	now = now.Add(heldLong + strainedFor)
	require.False(t, h.meet(7, now), "it was not met for long: the number may be of another one")
	require.Len(t, h.seen, 1)
	for holder := range int64(2 * holdersMax) {
		h.meet(100+holder, now)
	}
	require.Len(t, h.seen, holdersMax)
	require.True(t, h.meet(7, now.Add(heldLong)))
}
