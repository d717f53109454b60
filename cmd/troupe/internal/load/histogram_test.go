package load

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A quantile of the histogram is that of the sorted durations, to one part in
// 128, for distributions of every kind.
func TestQuantilesAreThoseOfTheDurations(t *testing.T) {
	t.Parallel()
	for name, draw := range map[string]func(*rand.Rand) float64{
		"uniform":   func(r *rand.Rand) float64 { return r.Float64() * 1e9 },
		"log":       func(r *rand.Rand) float64 { return math.Exp(r.Float64() * 40) },
		"long tail": func(r *rand.Rand) float64 { return 1e6 / (1e-6 + r.Float64()) },
		"constant":  func(*rand.Rand) float64 { return 1234567 },
		"tiny":      func(r *rand.Rand) float64 { return r.Float64() * 500 },
	} {
		for seed := range uint64(20) {
			source := rand.New(rand.NewPCG(seed, 7))
			var h Histogram
			drawn := make([]time.Duration, 1+source.IntN(3000))
			for i := range drawn {
				drawn[i] = time.Duration(draw(source))
				h.Record(drawn[i])
			}
			slices.Sort(drawn)
			require.EqualValues(t, len(drawn), h.Count())
			require.Equal(t, drawn[len(drawn)-1], h.Max())
			for _, share := range []float64{0, 0.001, 0.5, 0.9, 0.95, 0.99, 0.999, 1} {
				exact := drawn[max(1, int(math.Ceil(share*float64(len(drawn)))))-1]
				require.InDelta(t, float64(exact), float64(h.At(share)), float64(exact)/128+1, "%s, seed %d, share %v", name, seed, share)
			}
		}
	}
}

func TestBucketsCoverAllDurationsOnce(t *testing.T) {
	t.Parallel()
	next := int64(0)
	for i := range buckets {
		least, greatest := bounds(i)
		require.Equal(t, next, least, "bucket %d", i)
		require.Equal(t, i, bucketOf(least))
		require.Equal(t, i, bucketOf(greatest))
		next = greatest + 1
	}
	require.Equal(t, int64(math.MinInt64), next, "the last bucket ends with the largest duration")
}

func TestHistogramsAddUpAndTravel(t *testing.T) {
	t.Parallel()
	var left, right, both Histogram
	for i := range 10_000 {
		d := time.Duration(i*i) * time.Nanosecond
		if i%3 == 0 {
			left.Record(d)
		} else {
			right.Record(d)
		}
		both.Record(d)
	}
	text, err := json.Marshal(&left)
	require.NoError(t, err)
	var merged Histogram
	require.NoError(t, json.Unmarshal(text, &merged))
	merged.Merge(&right)
	for _, share := range []float64{0.01, 0.5, 0.99} {
		require.Equal(t, both.At(share), merged.At(share))
	}
	require.Equal(t, both.Max(), merged.Max())
	require.Equal(t, both.Mean(), merged.Mean())
	require.Equal(t, both.UpTo(time.Millisecond), merged.UpTo(time.Millisecond))
	require.Error(t, json.Unmarshal([]byte(`{"counts":[[999999,1]]}`), &merged))
}

func TestAnEmptyHistogramIsZero(t *testing.T) {
	t.Parallel()
	var h Histogram
	require.Zero(t, h.At(0.5))
	require.Zero(t, h.Mean())
	require.Zero(t, h.UpTo(time.Hour))
	h.Record(-time.Second)
	require.EqualValues(t, 1, h.Count())
	require.Zero(t, h.Max())
}

func BenchmarkRecord(b *testing.B) {
	var h Histogram
	b.ReportAllocs()
	for i := range b.N {
		h.Record(time.Duration(i) * 1000)
	}
}
