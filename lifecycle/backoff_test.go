package lifecycle

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	plain := workflow.RetryPolicy{Jitter: -1}
	exact := workflow.RetryPolicy{First: 100 * time.Millisecond, Factor: 3, Cap: 5 * time.Second, Jitter: -1}
	for _, c := range []struct {
		name    string
		policy  workflow.RetryPolicy
		attempt int32
		random  float64
		want    time.Duration
	}{
		{"defaults, first", plain, 1, 0, time.Second},
		{"defaults, second", plain, 2, 0, 2 * time.Second},
		{"defaults, sixth", plain, 6, 0, 32 * time.Second},
		{"defaults, capped", plain, 7, 0, time.Minute},
		{"defaults, capped for good", plain, math.MaxInt32, 0, time.Minute},
		{"attempts count from 1", plain, 0, 0, time.Second},
		{"own policy, first", exact, 1, 0, 100 * time.Millisecond},
		{"own policy, third", exact, 3, 0, 900 * time.Millisecond},
		{"own policy, capped", exact, 5, 0, 5 * time.Second},
		{"first over the default cap", workflow.RetryPolicy{First: 5 * time.Minute, Jitter: -1}, 1, 0, 5 * time.Minute},
		{"first over the default cap, second", workflow.RetryPolicy{First: 5 * time.Minute, Jitter: -1}, 2, 0, 5 * time.Minute},
		{"cap below first", workflow.RetryPolicy{First: time.Minute, Cap: time.Second, Jitter: -1}, 1, 0, time.Second},
		{"jitter at its lowest", workflow.RetryPolicy{}, 1, 0, 900 * time.Millisecond},
		{"jitter in the middle", workflow.RetryPolicy{}, 1, 0.5, time.Second},
		{"jitter after the cap", workflow.RetryPolicy{Jitter: 0.5}, 60, 0.75, 75 * time.Second},
		{"jitter beyond one never goes back in time", workflow.RetryPolicy{Jitter: 5}, 1, 0, 0},
		{"overflow", workflow.RetryPolicy{Cap: math.MaxInt64, Jitter: -1}, math.MaxInt32, 0, math.MaxInt64},
		{"overflow by jitter", workflow.RetryPolicy{Cap: math.MaxInt64, Jitter: 1}, 1000, 0.99, math.MaxInt64},
		{"not a number", workflow.RetryPolicy{Factor: math.NaN()}, 3, 0, 0},
	} {
		require.Equal(t, c.want, RetryDelay(c.policy, c.attempt, c.random), c.name)
	}
}

func TestRetryDelayProperties(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		policy := workflow.RetryPolicy{
			First: time.Duration(random.Int64N(int64(time.Hour))), Factor: 1 + 9*random.Float64(),
			Cap: time.Duration(random.Int64N(int64(24 * time.Hour))), Jitter: -1,
		}
		limit := policy.Cap
		if limit == 0 {
			limit = max(BackoffCap, policy.First)
		}
		last := time.Duration(0)
		for attempt := range int32(50) {
			delay := RetryDelay(policy, attempt+1, random.Float64())
			require.GreaterOrEqual(t, delay, last, "%+v attempt %d: without jitter delays never shrink", policy, attempt)
			require.LessOrEqual(t, delay, limit)
			last = delay

			policy.Jitter = 0.1
			jittered := RetryDelay(policy, attempt+1, random.Float64())
			policy.Jitter = -1
			require.InDelta(t, float64(delay), float64(jittered), 0.1*float64(delay)+1)
		}
	}
}

func FuzzRetryDelay(f *testing.F) {
	f.Add(int64(time.Second), 2.0, int64(time.Minute), 0.1, int32(3), 0.5)
	f.Add(int64(math.MaxInt64), math.Inf(1), int64(math.MaxInt64), math.Inf(1), int32(math.MaxInt32), 0.9)
	f.Fuzz(func(t *testing.T, first int64, factor float64, limit int64, jitter float64, attempt int32, random float64) {
		policy := workflow.RetryPolicy{First: time.Duration(first), Factor: factor, Cap: time.Duration(limit), Jitter: jitter}
		require.GreaterOrEqual(t, RetryDelay(policy, attempt, random), time.Duration(0))
	})
}

func TestMayRetry(t *testing.T) {
	t.Parallel()
	require.False(t, MayRetry(workflow.RetryPolicy{}, 1, ""), "typed steps have one attempt")
	require.False(t, MayRetry(workflow.RetryPolicy{Attempts: 1}, 1, ""))
	require.True(t, MayRetry(workflow.RetryPolicy{Attempts: 3}, 2, ""))
	require.False(t, MayRetry(workflow.RetryPolicy{Attempts: 3}, 3, ""))
	never := workflow.RetryPolicy{Attempts: 3, Never: []string{"declined", "timed_out"}}
	require.True(t, MayRetry(never, 1, ""))
	require.True(t, MayRetry(never, 1, "busy"))
	require.False(t, MayRetry(never, 1, "declined"))
	require.False(t, MayRetry(never, 1, "timed_out"))
}
