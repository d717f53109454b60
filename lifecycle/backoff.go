package lifecycle

import (
	"math"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// Defaults of a retry policy whose fields are zero. The cap is never below the
// first wait: a policy that names a long first wait means it.
const (
	BackoffFirst  = time.Second
	BackoffFactor = 2.0
	BackoffCap    = time.Minute
	BackoffJitter = 0.1
)

// RetryDelay returns the delay after the given failed attempt (counted from 1):
// min(cap, first × factorⁿ⁻¹) × (1 ± jitter). random is in [0, 1). The result
// is never negative.
func RetryDelay(policy workflow.RetryPolicy, attempt int32, random float64) time.Duration {
	first, factor, limit, jitter := policy.First, policy.Factor, policy.Cap, policy.Jitter
	if first == 0 {
		first = BackoffFirst
	}
	if factor == 0 {
		factor = BackoffFactor
	}
	if limit == 0 {
		limit = max(BackoffCap, first)
	}
	if jitter == 0 {
		jitter = BackoffJitter
	}
	delay := float64(first) * math.Pow(factor, float64(max(attempt, 1)-1))
	delay = min(delay, float64(limit))
	if jitter > 0 {
		delay *= 1 + jitter*(2*random-1)
	}
	switch {
	case delay >= math.MaxInt64:
		return math.MaxInt64
	case delay > 0:
		return time.Duration(delay)
	}
	return 0 // not a number is no reason to wait either
}

// WorthRetry reports whether the policy allows other attempts after an error of a
// class.
func WorthRetry(policy workflow.RetryPolicy, class string) bool {
	return !slices.Contains(policy.Never, class)
}

// MayRetry reports whether the policy allows another attempt after the given
// failed one (counted from 1), whose error is of a class.
func MayRetry(policy workflow.RetryPolicy, attempt int32, class string) bool {
	return int(attempt) < policy.Attempts && WorthRetry(policy, class)
}
