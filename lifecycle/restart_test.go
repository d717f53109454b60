package lifecycle

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDecideRestart(t *testing.T) {
	t.Parallel()
	limit := RestartIntensity{Max: 4, Period: time.Minute, First: 100 * time.Millisecond, Cap: 250 * time.Millisecond}
	start := time.Unix(1000, 0)
	at := func(s ...int) []time.Time {
		times := make([]time.Time, 0, len(s))
		for _, second := range s {
			times = append(times, start.Add(time.Duration(second)*time.Second))
		}
		return times
	}
	boom := errors.New("boom")
	for _, c := range []struct {
		name   string
		past   []time.Time
		now    int
		reason any
		want   RestartDecision
	}{
		{"first failure", nil, 0, boom, RestartDecision{Restart, 0, at(0)}},
		{"second", at(0), 1, boom, RestartDecision{Restart, 100 * time.Millisecond, at(0, 1)}},
		{"third", at(0, 1), 2, boom, RestartDecision{Restart, 200 * time.Millisecond, at(0, 1, 2)}},
		{"fourth, capped", at(0, 1, 2), 3, "a panic", RestartDecision{Restart, 250 * time.Millisecond, at(0, 1, 2, 3)}},
		{"the budget is used up", at(0, 1, 2, 3), 4, boom, RestartDecision{Directive: Escalate}},
		{"old failures are forgotten", at(0, 1, 2, 3), 61, boom, RestartDecision{Restart, 200 * time.Millisecond, at(2, 3, 61)}},
		{"a failure is old after the period", at(0), 60, boom, RestartDecision{Restart, 0, at(60)}},
		{"asks to be stopped", at(0, 1, 2, 3), 4, fmt.Errorf("leaving: %w", ErrStopChild), RestartDecision{Directive: Stop}},
	} {
		got := DecideRestart(limit, c.past, start.Add(time.Duration(c.now)*time.Second), c.reason)
		require.Equal(t, c.want, got, c.name)
	}
}

func TestDecideRestartBounds(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	require.Equal(t, Escalate, DecideRestart(RestartIntensity{Period: time.Minute}, nil, now, "").Directive,
		"without a budget every failure escalates")

	limit := RestartIntensity{Max: 100, Period: time.Hour, First: time.Second, Cap: 1 << 62}
	var kept []time.Time
	last := time.Duration(0)
	for i := range 100 {
		d := DecideRestart(limit, kept, now.Add(time.Duration(i)), nil)
		require.Equal(t, Restart, d.Directive)
		require.GreaterOrEqual(t, d.Delay, last, "delays grow and do not overflow")
		require.LessOrEqual(t, d.Delay, limit.Cap)
		require.LessOrEqual(t, len(d.Kept), limit.Max)
		kept, last = d.Kept, d.Delay
	}
}
