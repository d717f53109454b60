package vitals

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
)

// A pod that is not ready gets no calls, so it must forget rejections to recover.
func TestRejectionsOfEssentialCallsAreForgottenSoon(t *testing.T) {
	t.Parallel()
	r, now, refused := RejectedCalls{}, time.Unix(1000, 0), errors.New("refused")
	r.Note("trigger_runs", now, 0, refused)
	worst := func(after time.Duration) bool {
		why, idle := r.LongestRejected(now.Add(after))
		require.Equal(t, idle, why != "")
		return idle
	}
	require.False(t, worst(time.Minute), "one says little")
	for at := range 12 {
		r.Note("trigger_runs", now.Add(time.Duration(at)*time.Second), 0, refused)
		require.Equal(t, at >= 10, worst(time.Duration(at)*time.Second))
	}
	require.False(t, worst(11*time.Second+EssentialMemory))
	r.Note("trigger_runs", now.Add(20*time.Second), 0, refused)
	require.False(t, worst(20*time.Second), "it begins anew")
	r.Note("trigger_runs", now.Add(40*time.Second), 0, nil)
	for at := 100; at <= 160; at += 30 {
		r.Note("trigger_runs", now.Add(time.Duration(at)*time.Second), 30*time.Second, refused)
	}
	require.True(t, worst(165*time.Second), "each takes long to be refused")
}

// A pod that no longer leads makes no call of a leader, so it forgets their rejections.
func TestRejectionsAreForgotten(t *testing.T) {
	t.Parallel()
	r, now, leader := RejectedCalls{}, time.Unix(1000, 0), []string{"fire_timers", "expire_pods", "drop_history"}
	for range 3 {
		for _, name := range leader {
			r.Note(name, now, 30*time.Second, errors.New("refused"))
		}
		now = now.Add(RejectedMax)
	}
	why, _ := r.LongestRejected(now)
	require.NotEmpty(t, why)
	r.Forget(leader...)
	why, _ = r.LongestRejected(now)
	require.Empty(t, why)
}

// A rejection of an infrequent call is reported at once and until the next such call. A
// conflict is not.
func TestRejectionsOfInfrequentCallsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	for _, name := range Infrequent() {
		r, now := RejectedCalls{}, time.Unix(1000, 0)
		r.Note(name, now, time.Second, persistence.ErrConflict)
		why, _ := r.LongestRejected(now)
		require.Empty(t, why)
		for range 2 {
			now = now.Add(infrequentMemory/2 + time.Second)
			r.Note(name, now, time.Second, errors.New("a user's view"))
			for _, after := range []time.Duration{0, infrequentMemory / 2} {
				why, idle := r.LongestRejected(now.Add(after))
				require.Contains(t, why, "a user's view", name)
				require.False(t, idle)
			}
		}
		r.Note(name, now, time.Second, nil)
		why, _ = r.LongestRejected(now)
		require.Empty(t, why)
	}
}

// A begin that fails during an outage, or right after one, does not open the breaker.
func TestFailedBeginsOfAnOutageDoNotCount(t *testing.T) {
	t.Parallel()
	b, now, err := &TxBreaker{}, time.Unix(1000, 0), errors.New("refused")
	for range 10 {
		b.BeginFailed(now, now, Outage{Away: now.Add(-time.Second)}, err)
		b.BeginFailed(now, now.Add(time.Minute), Outage{Silent: true}, err)
	}
	require.Zero(t, b.Wait(now))
	require.Empty(t, b.Trouble(now))
	now = now.Add(time.Hour)
	for range TxFailures {
		b.BeginFailed(now, now, Outage{Away: now, Ended: now.Add(-time.Second)}, err)
	}
	require.Zero(t, b.Wait(now), "the server was restarted")
	for range TxFailures {
		b.BeginFailed(now, now, Outage{}, err)
	}
	require.Equal(t, TxOpenFor, b.Wait(now))
	require.Zero(t, b.Wait(now.Add(TxOpenFor)))
	require.Contains(t, b.Trouble(now), "refused")
	require.Empty(t, b.Trouble(now.Add(TxMemory)))
	b.Close()
	require.Zero(t, b.Wait(now), "the pool gives something")
	for range TxFailures {
		b.BeginFailed(now, now, Outage{}, err)
	}
	require.Equal(t, TxOpenFor, b.Wait(now), "and then no more")
	b.Close()
	require.Zero(t, b.Wait(now), "there is a connection again")
	b.BeginFailed(now, now, Outage{}, err)
	require.Empty(t, b.Trouble(now), "it begins anew")
	for range TxFailures {
		b.BeginFailed(now, now, Outage{Away: now}, persistence.ErrNoResources)
	}
	require.Contains(t, b.Trouble(now), "raise max_connections", "a server that has no connection to give answers")
}

// A call rejected now and then, for example because no further connection can be opened,
// is no outage.
func TestFailedBeginsBesideOneRejectedCall(t *testing.T) {
	t.Parallel()
	b, now, tried := &TxBreaker{}, time.Unix(1000, 0), 0
	for range 600 { // a minute
		if b.Wait(now) == 0 {
			tried++
			b.BeginFailed(now, now, Outage{Away: now}, errors.New("refused"))
		}
		now = now.Add(100 * time.Millisecond)
	}
	require.Contains(t, b.Trouble(now), "refused")
	require.Less(t, tried, 50, "for three seconds, and then once in ten")
}

// A slow answer is no clock step, and neither is a clock that is set back.
func TestClockStep(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
	clock := ClockStep{Drift: 3 * time.Second}
	require.Zero(t, clock.UpperBound(at(0)))
	require.Zero(t, clock.Observe(at(100), at(0), at(1)), "any first difference is accepted")
	require.Equal(t, at(113), clock.UpperBound(at(10)))
	require.Zero(t, clock.Observe(at(110), at(10), at(30)), "asked at once, and answered late")
	require.Zero(t, clock.Observe(at(150), at(31), at(50)), "answered late, and at the last moment")
	require.Zero(t, clock.Observe(at(153), at(51), at(51)))
	require.Zero(t, clock.At)
	require.Equal(t, time.Hour, clock.Observe(at(154).Add(time.Hour), at(52), at(52)))
	require.Equal(t, at(52), clock.At)
	require.Zero(t, clock.Observe(at(155), at(53), at(53)), "the clock was set back")
	require.Zero(t, clock.Observe(at(156), at(54), at(54)))
	require.Equal(t, at(52), clock.At)
}

// A slow answer does not raise the upper bound of the clock.
func TestSlowAnswersAreNoBaseOfTheClock(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
	clock := ClockStep{Drift: 3 * time.Second}
	require.Zero(t, clock.Observe(at(0), at(0), at(0)))
	require.Zero(t, clock.Observe(at(20), at(10), at(20)), "it was read at the end")
	require.Equal(t, at(24), clock.UpperBound(at(21)))
	require.Equal(t, 9*time.Second, clock.Observe(at(31), at(22), at(22)))
	require.Zero(t, clock.Large)
}

// Short clock steps add up, unless they are far apart.
func TestShortClockStepsAddUp(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		leaps int
		ahead time.Duration
		after time.Duration
		far   bool
	}{
		{"one of a minute, seen a little shorter", 1, LargeClockStep, time.Second, true},
		{"one of half of that", 1, LargeClockStep / 2, time.Second, false},
		{"two soon after each other", 2, LargeClockStep / 2, ClockStepHold / 2, true},
		{"two long after each other", 2, LargeClockStep / 2, 2 * ClockStepHold, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clock, ours := ClockStep{Drift: 3 * time.Second}, now
			clock.Observe(now, ours, ours)
			for n := range c.leaps {
				ours = ours.Add(c.after)
				asked := ours.Add(-20 * time.Millisecond)
				require.Positive(t, clock.Observe(now.Add(asked.Sub(now)+time.Duration(n+1)*c.ahead), asked, ours))
			}
			require.Equal(t, c.far, !clock.Large.IsZero())
		})
	}
}

func TestBatchLimit(t *testing.T) {
	t.Parallel()
	var l BatchLimit
	now := time.Unix(1000, 0)
	failed := errors.New("failed")
	batch := func(took time.Duration, err error) int {
		rows := l.Begin(500, now)
		now = now.Add(took)
		l.Ended(rows, now, err)
		return rows
	}
	require.Equal(t, 500, batch(time.Second, nil))
	require.Equal(t, 500, batch(time.Second, failed), "that was something else")
	require.Equal(t, 500, batch(SlowBatch, nil), "slow, and done")
	require.Equal(t, 500, batch(30*time.Second, failed))
	require.Equal(t, 125, l.Begin(500, now))
	now = now.Add(2 * SlowBatch) // given up with its actor
	require.Equal(t, 31, batch(SlowBatch, nil))
	require.Equal(t, 31, batch(0, failed))
	for _, rows := range []int{31, 62, 124, 248, 496, 500, 500} {
		require.Equal(t, rows, batch(SlowBatch-1, nil))
	}
	require.Equal(t, 500, l.Begin(500, now))
	for range 10 {
		batch(30*time.Second, failed)
	}
	require.Equal(t, 1, batch(0, nil))
	for range 10 {
		batch(0, nil)
	}
	require.Equal(t, 500, batch(0, persistence.ErrNoResources))
	require.Equal(t, 125, batch(0, nil), "it has no room for as many")
}
