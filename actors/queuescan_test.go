package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// granted is the answer to a claim of ten tasks that granted n.
func granted(n int, block int64) *persistence.Claimed {
	claimed := &persistence.Claimed{Grants: make([]persistence.Grant, n), Scanned: n}
	if n > 0 {
		claimed.Lowest = lifecycle.FairID(7, 0, block)
	}
	return claimed
}

func TestQueueScanBegins(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	hint := func(block int64) int64 { return lifecycle.FairID(7, 0, block-scanFromBlocks) }
	// claim lets a claim be answered a millisecond after it was asked.
	claim := func(q *queueScan, ms int, found *persistence.Claimed) (from int64, fullScan time.Time) {
		from = q.from(at(ms))
		open := &openClaim{request: persistence.ClaimRequest{GrantRequest: persistence.GrantRequest{Limit: 10}, After: from}, asked: at(ms), full: from == 0}
		return from, q.learn(open, found, at(ms+1))
	}

	t.Run("a backlog", func(t *testing.T) {
		t.Parallel()
		q := &queueScan{}
		from, fullScan := claim(q, 0, granted(10, 100))
		require.Zero(t, from)
		require.Zero(t, fullScan)
		require.True(t, q.woken, "there is more")
		from, _ = claim(q, 5, granted(10, 110))
		require.Equal(t, hint(100), from)
		from, _ = claim(q, 252, granted(10, 400))
		require.Zero(t, from, "a full scan is due")
		require.Equal(t, hint(400), q.from(at(260)))
	})
	t.Run("a claim that empties the queue", func(t *testing.T) {
		t.Parallel()
		q := &queueScan{}
		_, fullScan := claim(q, 0, granted(3, 100))
		require.Zero(t, fullScan, "it was one")
		require.False(t, q.woken)
		require.Zero(t, q.scanFrom, "nextFrom is too young")
		_, fullScan = claim(q, 102, granted(3, 200))
		require.Zero(t, fullScan)
		from, fullScan := claim(q, 120, granted(2, 201))
		require.Equal(t, hint(100), from)
		require.Equal(t, at(353), fullScan, "a task may have been committed below")
		from, fullScan = claim(q, 130, granted(0, 0))
		require.Equal(t, hint(100), from)
		require.Equal(t, at(353), fullScan)
		claim(q, 210, granted(1, 300))
		require.Equal(t, hint(200), q.from(at(220)))
		claim(q, 360, granted(1, 50)) // a full scan finds a task that was committed late
		require.Equal(t, hint(50), q.from(at(370)))
	})
	t.Run("slow full scans are rare", func(t *testing.T) {
		t.Parallel()
		q := &queueScan{}
		q.learn(&openClaim{request: persistence.ClaimRequest{GrantRequest: persistence.GrantRequest{Limit: 10}}, asked: at(0), full: true}, granted(10, 100), at(100))
		require.Equal(t, hint(100), q.from(at(100+fullScanShare*100-1)))
		require.Zero(t, q.from(at(100+fullScanShare*100)))
	})
	t.Run("a full scan that waited for a lock delays the next by a bounded time", func(t *testing.T) {
		t.Parallel()
		q := &queueScan{}
		q.learn(&openClaim{request: persistence.ClaimRequest{GrantRequest: persistence.GrantRequest{Limit: 10}}, asked: at(0), full: true}, granted(10, 100), at(30_000))
		require.Zero(t, q.from(at(30_000).Add(fullScanMax)))
	})
	t.Run("a limit per tenant", func(t *testing.T) {
		t.Parallel()
		q := &queueScan{scanFrom: hint(100), fullScanAt: at(200)}
		open := &openClaim{request: persistence.ClaimRequest{GrantRequest: persistence.GrantRequest{Limit: 10, TenantLimit: 2}, After: q.scanFrom}, asked: at(0)}
		require.Zero(t, q.learn(open, granted(1, 120), at(1)))
		require.True(t, q.woken)
		require.Zero(t, q.from(at(2)), "the skipped tasks stand below")
	})
}

// A claim that left tasks out asks for a full scan after the time that it says, within bounds.
func TestQueueScanAfterTasksWereLeftOut(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		again, want time.Duration
		limit       int
	}{
		{again: 2 * time.Second, want: 2 * time.Second},
		{again: 2 * time.Second, want: 2 * time.Second, limit: 2},
		{again: time.Minute, want: fullScanMax},
		{again: time.Nanosecond, want: fullScanEvery},
		{again: time.Nanosecond, want: fullScanEvery, limit: 2},
	} {
		q := &queueScan{}
		found := granted(1, 100)
		found.Again = c.again
		open := &openClaim{request: persistence.ClaimRequest{GrantRequest: persistence.GrantRequest{Limit: 10, TenantLimit: c.limit}}, asked: now, full: true}
		require.Equal(t, now.Add(c.want), q.learn(open, found, now))
		require.False(t, q.woken, "not before that")
		require.Zero(t, q.from(now.Add(c.want)))
	}
}

// leavingOut is a store whose claims and drains leave everything out at first.
type leavingOut struct {
	persistence.Store

	claims, drains atomic.Int32
	off            atomic.Bool
}

func (s *leavingOut) ClaimTasks(ctx context.Context, request persistence.ClaimRequest) (persistence.Claimed, error) {
	if s.off.Load() {
		return s.Store.ClaimTasks(ctx, request)
	}
	s.claims.Add(1)
	return persistence.Claimed{Again: 3 * time.Second}, nil
}

func (s *leavingOut) DrainIntake(ctx context.Context, limit int) (persistence.Drained, error) {
	if s.off.Load() {
		return s.Store.DrainIntake(ctx, limit)
	}
	s.drains.Add(1)
	return persistence.Drained{Again: 3 * time.Second}, nil
}

// Claims and drains that left something out are made again after the time that they say,
// and not before.
func TestWhatWasLeftOutIsAskedForAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s := &leavingOut{Store: w.store}
		w.faults.Store = s
		p := w.single(newGauge().work(time.Millisecond), Config{Slots: 4, Sweep: time.Hour})
		run := w.trigger(p, "single")
		pass(time.Second)
		claims, drains := s.claims.Load(), s.drains.Load()
		pass(30 * time.Second)
		require.EqualValues(t, 10, s.claims.Load()-claims)
		require.EqualValues(t, 10, s.drains.Load()-drains)
		s.off.Store(true)
		pass(4 * time.Second)
		w.completed(run)
	})
}

// The end of one suspect, told while the next is on its way to runs, lets no further
// one in beside it.
func TestASuspectOnItsWayIsOne(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.acquainted(Config{Slots: 4}, newGauge(), 50*time.Millisecond)
		c, is := spawnClaimer(p.rt, &Ports{}, p.Stats().Pod, &claimerState{fenced: true})().(*claimer) // it claims nothing
		require.True(t, is)
		l := newLedger(p.rt.config.pools(), p.rt.config.StuckMax)
		task := func(step int32) *messages.Task {
			return taskKey{task: workflow.TaskID{Step: step}, epoch: 1}.message()
		}
		c.askForSlots()
		c.onSlotsOffered(l.offerAll(c.question))
		handedBack := l.adopt(task(1))

		c.note(&openClaim{}, &persistence.Claimed{Grants: []persistence.Grant{{Suspect: true}}})
		l.drop(handedBack, true)
		freed := l.offerNew()
		require.True(t, freed.GetSuspectEnded())
		c.onSlotsFreed(freed)
		require.False(t, c.offered, "it asks anew, behind what it has handed over")
		started := l.hold(&messages.StartTask{Task: task(2), Suspect: true}, l.pools[0].name)
		c.onSlotsOffered(l.offerAll(c.question))
		require.True(t, c.suspect)

		l.drop(started, true)
		c.onSlotsFreed(l.offerNew())
		c.onSlotsOffered(l.offerAll(c.question))
		require.False(t, c.suspect)
	})
}
