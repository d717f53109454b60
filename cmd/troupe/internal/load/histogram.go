package load

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Durations are counted in buckets: below fineMax in such of one nanosecond,
// beyond it in fineMax/2 for each power of two. A quantile is so known to one
// part in 128, whatever its size and however many there are.
const (
	fineBits = 7
	fineMax  = 1 << (fineBits + 1)
	buckets  = fineMax + (63-fineBits-1)<<fineBits
)

// Histogram counts durations. It is safe for concurrent use, and does not grow.
type Histogram struct {
	counts [buckets]atomic.Int64
	sum    atomic.Int64
	max    atomic.Int64
}

// Record counts a duration; a negative one counts as none.
func (h *Histogram) Record(d time.Duration) {
	d = max(0, d)
	h.counts[bucketOf(int64(d))].Add(1)
	h.sum.Add(int64(d))
	h.raise(int64(d))
}

func (h *Histogram) raise(to int64) {
	for seen := h.max.Load(); to > seen && !h.max.CompareAndSwap(seen, to); {
		seen = h.max.Load()
	}
}

func bucketOf(v int64) int {
	if v < fineMax {
		return int(v)
	}
	shift := bits.Len64(uint64(v)) - fineBits - 1
	return shift<<fineBits + int(v>>shift)
}

// bounds are the least and the greatest value of a bucket.
func bounds(bucket int) (least, greatest int64) {
	if bucket < fineMax {
		return int64(bucket), int64(bucket)
	}
	shift := bucket>>fineBits - 1
	least = int64(bucket-shift<<fineBits) << shift
	return least, least + 1<<shift - 1
}

// Count returns how many durations were recorded.
func (h *Histogram) Count() int64 {
	var all int64
	for i := range h.counts {
		all += h.counts[i].Load()
	}
	return all
}

// At returns the smallest duration that the given share of all does not
// exceed, to one part in 128, or 0 if there are none.
func (h *Histogram) At(share float64) time.Duration {
	rank := max(1, int64(math.Ceil(share*float64(h.Count()))))
	for i := range h.counts {
		if rank -= h.counts[i].Load(); rank <= 0 {
			least, greatest := bounds(i)
			return time.Duration(min(least+(greatest-least)/2, h.max.Load()))
		}
	}
	return 0
}

// Max returns the longest duration.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max.Load()) }

// Mean returns the average.
func (h *Histogram) Mean() time.Duration {
	if n := h.Count(); n > 0 {
		return time.Duration(h.sum.Load() / n)
	}
	return 0
}

// UpTo returns how many durations are not longer than d, give or take the
// bucket that d is in.
func (h *Histogram) UpTo(d time.Duration) int64 {
	var some int64
	for i := range bucketOf(int64(d)) + 1 {
		some += h.counts[i].Load()
	}
	return some
}

// Merge adds what another one has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i := range other.counts {
		if n := other.counts[i].Load(); n > 0 {
			h.counts[i].Add(n)
		}
	}
	h.sum.Add(other.sum.Load())
	h.raise(other.max.Load())
}

// sparse is a histogram on its way to another process.
type sparse struct {
	Counts [][2]int64 `json:"counts"` // bucket and count
	Sum    int64      `json:"sum"`
	Max    int64      `json:"max"`
}

// MarshalJSON implements json.Marshaler.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	s := sparse{Sum: h.sum.Load(), Max: h.max.Load()}
	for i := range h.counts {
		if n := h.counts[i].Load(); n > 0 {
			s.Counts = append(s.Counts, [2]int64{int64(i), n})
		}
	}
	return json.Marshal(s)
}

// UnmarshalJSON implements json.Unmarshaler; it adds to what is there.
func (h *Histogram) UnmarshalJSON(text []byte) error {
	var s sparse
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	for _, entry := range s.Counts {
		if entry[0] < 0 || entry[0] >= buckets {
			return fmt.Errorf("bucket %d of a histogram: there are %d", entry[0], buckets)
		}
		h.counts[entry[0]].Add(entry[1])
	}
	h.sum.Add(s.Sum)
	h.raise(s.Max)
	return nil
}
