package vitals

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
