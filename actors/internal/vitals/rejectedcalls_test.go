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
