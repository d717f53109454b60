package actors

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// granted is a claim that looked for ten tasks and found these.
func granted(n int, block int64) *persistence.Claimed {
	claimed := &persistence.Claimed{Grants: make([]persistence.Grant, n), Scanned: n}
	if n > 0 {
		claimed.Lowest = lifecycle.FairID(7, 0, block)
	}
	return claimed
}

func TestQueueViewKnowsWhereToLook(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	hint := func(block int64) int64 { return lifecycle.FairID(7, 0, block-hintBlocks) }
	// claim lets a claim be answered a millisecond after it was asked.
	claim := func(q *queueView, ms int, found *persistence.Claimed) (after int64, unsure bool) {
		after = q.after(at(ms))
		open := &openClaim{request: persistence.ClaimRequest{Limit: 10, After: after}, asked: at(ms), full: after == 0}
		return after, q.learn(open, found, at(ms+1))
	}

	t.Run("a backlog", func(t *testing.T) {
		t.Parallel()
		q := &queueView{}
		after, unsure := claim(q, 0, granted(10, 100))
		require.Zero(t, after)
		require.False(t, unsure)
		require.True(t, q.woken, "there is more")
		after, _ = claim(q, 5, granted(10, 110))
		require.Equal(t, hint(100), after)
		after, _ = claim(q, 252, granted(10, 400))
		require.Zero(t, after, "it is time to look at everything")
		require.Equal(t, hint(400), q.after(at(260)))
	})
	t.Run("all that there is", func(t *testing.T) {
		t.Parallel()
		q := &queueView{}
		_, unsure := claim(q, 0, granted(3, 100))
		require.False(t, unsure, "it looked at everything")
		require.False(t, q.woken)
		require.Zero(t, q.hint, "what was seen just now is no hint yet")
		_, unsure = claim(q, 102, granted(3, 200))
		require.False(t, unsure)
		after, unsure := claim(q, 120, granted(2, 201))
		require.Equal(t, hint(100), after, "what was seen a while ago")
		require.True(t, unsure, "something may have been committed below it")
		after, unsure = claim(q, 130, granted(0, 0))
		require.Equal(t, hint(100), after)
		require.True(t, unsure)
		claim(q, 210, granted(1, 300))
		require.Equal(t, hint(200), q.after(at(220)))
		claim(q, 360, granted(1, 50)) // looks at everything, and finds a row committed late
		require.Equal(t, hint(50), q.after(at(370)))
	})
	t.Run("slow looks at everything are rare", func(t *testing.T) {
		t.Parallel()
		q := &queueView{}
		q.learn(&openClaim{request: persistence.ClaimRequest{Limit: 10}, asked: at(0), full: true}, granted(10, 100), at(100))
		require.Equal(t, hint(100), q.after(at(100+wholeShare*100-1)))
		require.Zero(t, q.after(at(100+wholeShare*100)))
	})
	t.Run("a look that waited for something else puts the next off for a while only", func(t *testing.T) {
		t.Parallel()
		q := &queueView{}
		q.learn(&openClaim{request: persistence.ClaimRequest{Limit: 10}, asked: at(0), full: true}, granted(10, 100), at(30_000))
		require.Zero(t, q.after(at(30_000).Add(wholeMax)))
	})
	t.Run("a limit per tenant", func(t *testing.T) {
		t.Parallel()
		q := &queueView{hint: hint(100), whole: at(200)}
		open := &openClaim{request: persistence.ClaimRequest{Limit: 10, After: q.hint, TenantLimit: 2}, asked: at(0)}
		require.False(t, q.learn(open, granted(1, 120), at(1)))
		require.True(t, q.woken)
		require.Zero(t, q.after(at(2)), "what was passed over stands below")
	})
}

// What somebody holds is looked for again: nobody tells when it can be had.
func TestQueueViewLooksAgainForWhatIsHeld(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	held := granted(1, 100)
	held.Held = 5
	q := &queueView{}
	open := &openClaim{request: persistence.ClaimRequest{Limit: 10}, asked: at(0), full: true}
	require.True(t, q.learn(open, held, at(0)))
	require.False(t, q.woken, "not before a while has passed")
	open.asked = at(260)
	require.False(t, q.learn(open, granted(1, 100), at(260)))
	for ms := 600; ms < 2000; ms += 300 {
		open := &openClaim{request: persistence.ClaimRequest{Limit: 10, TenantLimit: 2}, asked: at(ms), full: true}
		require.True(t, q.learn(open, held, at(ms)))
		require.False(t, q.woken)
		require.Equal(t, at(ms).Add(wholeEvery), q.whole)
		require.EqualValues(t, 1, q.after(at(ms+1)), "not past all that is held each time")
	}
}

// A claim that does not look at everything begins behind a crowd that somebody holds: it
// would not come past it.
func TestQueueViewLooksBehindACrowdThatIsHeld(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	for _, c := range []struct {
		granted, held int
		lowest, want  int64 // blocks
		limit         int
	}{
		{granted: 3, held: heldCrowd, lowest: 900, want: 900 - hintBlocks},
		{granted: 0, held: heldCrowd, want: 1000 - hintBlocks},
		{granted: 3, held: heldCrowd - 1, lowest: 900, want: 50},
		{granted: 3, held: heldCrowd, lowest: 900, want: 0, limit: 2},
	} {
		q := &queueView{hint: placeOf(50), next: placeOf(50), nextAt: at(0)}
		found := granted(c.granted, c.lowest)
		found.Held, found.Frontier = c.held, 1000
		open := &openClaim{request: persistence.ClaimRequest{Limit: 10, TenantLimit: c.limit}, asked: at(10), full: true}
		require.True(t, q.learn(open, found, at(20)), "what is held is looked for again")
		require.Equal(t, c.want, q.after(at(30))/placeOf(1))
	}
}

// Who was passed over for long has arrears: every other claim looks above them.
func TestQueueViewAndArrears(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	q, frontier := &queueView{}, int64(10_000)
	require.Equal(t, 10, q.share(10))
	claim := func(ms, n int, block int64) (after int64) {
		after = q.after(at(ms))
		q.woken = false
		open := &openClaim{request: persistence.ClaimRequest{Limit: 10, After: after}, asked: at(ms), full: after == 0}
		found := granted(n, block)
		found.Frontier = frontier
		q.learn(open, found, at(ms))
		return after
	}
	high := lifecycle.FairID(0, 0, 10_000-hintBlocks)
	claim(0, 10, 10_000)
	for i := range 4 {
		ms := 300 + 10*i
		if i == 0 {
			require.Zero(t, claim(ms, 10, 100))
		} else {
			require.Less(t, claim(ms, 10, int64(100+i)), high)
		}
		require.True(t, q.woken)
		require.Equal(t, 5, q.share(10), "the rest is for who has arrears")
		require.Equal(t, 1, q.share(1))
		require.Equal(t, high, claim(ms+5+1000*(i%2), 0, 0), "the others, also if a look at everything is due")
		require.True(t, q.woken, "nothing of others is ready")
		frontier += 50 // who is ahead of the others has tasks there, too
	}
	require.Less(t, claim(400, 3, 110), high)
	require.False(t, q.woken)
	require.Zero(t, q.mark, "that was all")
	require.Less(t, claim(410, 10, 10_000), high, "there are no more")
	claim(420, 10, frontier+10-arrearsBlocks)
	require.Less(t, q.after(at(430)), high, "what was enqueued late is no arrears")
}

// Others' tasks may stand behind the frontier of a moment ago.
func TestQueueViewLooksAboveArrearsFromWhereOthersMayStand(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	for _, c := range []struct {
		what      string
		frontiers []int64 // a claim each 60 ms
		want      int64
	}{
		{"nobody looked before", []int64{5000}, 5000 - arrearsBlocks},
		{"slow", []int64{4990, 4992, 4994, 4996, 4998, 5000}, 4994 - hintBlocks}, // 180 ms ago
		{"fast", []int64{1000, 2000, 3000, 4000, 5000}, 5000 - arrearsBlocks},
	} {
		q := &queueView{}
		for i, frontier := range c.frontiers {
			block := frontier
			if i == len(c.frontiers)-1 {
				block = 100
			}
			found := granted(10, block)
			found.Frontier = frontier
			q.learn(&openClaim{request: persistence.ClaimRequest{Limit: 10}, asked: at(60 * i), full: true}, found, at(60*i))
		}
		require.Equal(t, lifecycle.FairID(0, 0, c.want), q.after(at(1000)), c.what)
	}
}

// leaving is a store that parks nothing.
type leaving struct{ persistence.Store }

func (leaving) ParkTasks(context.Context, int64, int) (persistence.Parked, error) {
	return persistence.Parked{}, nil
}

// Beside somebody's arrears others get half of the slots, also where these become free
// all at once and rarely.
func TestArrearsLeaveHalfOfTheSlots(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 8} {
		t.Run(fmt.Sprintf("limit %d", limit), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, w *world) { w.leaveHalf(t, Config{Slots: 8, TenantLimit: limit}) })
		})
	}
}

func (w *world) leaveHalf(t *testing.T, config Config) {
	t.Helper()
	const long = 2 * time.Second
	w.faults.Store = leaving{w.store}
	w.register(storetest.Chain(2), newGauge().work(long))
	later := w.functions
	w.functions = map[int32]StepFunction{}
	w.register(storetest.Diamond(), newGauge().work(time.Millisecond))
	p := w.start(config)
	maps.Copy(later, w.functions)
	begin := func(name, tenant string, n int) (runs []workflow.RunID) {
		var orders []persistence.Trigger
		for range n {
			order := w.order(name)
			order.Tenant = tenant
			orders = append(orders, order)
		}
		for part := range slices.Chunk(orders, persistence.TriggerBatchMax/2) {
			answers, refused, err := p.Trigger(t.Context(), part)
			require.NoError(t, err)
			require.Nil(t, refused)
			for _, answer := range answers {
				runs = append(runs, answer.Run)
			}
		}
		return runs
	}
	begin("chain2", "late", 400)
	w.completed(begin("diamond", "default", 10*arrearsBlocks)...) // the frontier moves on
	w.functions = later
	p.Kill()
	p = w.start(config)
	pass(10 * time.Second)
	for range 6 {
		began := time.Now()
		w.completed(w.trigger(p, "diamond"))
		require.LessOrEqual(t, time.Since(began), 7*long, "each of its three levels waits until slots become free, once or twice")
	}
	require.Zero(t, p.Stats().Inline, "who has arrears takes no slots past the line")
}
