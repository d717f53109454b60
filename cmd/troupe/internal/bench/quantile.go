package bench

import (
	"math"
	"slices"
	"time"
)

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// times are durations measured one after the other.
type times []time.Duration

// at returns the smallest of them, in milliseconds, that the given share of
// all does not exceed.
func (t times) at(share float64) float64 {
	if len(t) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t))
	rank := max(1, int(math.Ceil(share*float64(len(sorted)))))
	return float64(sorted[rank-1].Microseconds()) / 1e3
}

func (t times) sample() sample { return sample{p50: t.at(0.5), p99: t.at(0.99)} }
