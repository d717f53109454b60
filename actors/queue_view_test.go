package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
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
