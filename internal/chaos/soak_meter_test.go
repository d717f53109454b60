package chaos

import (
	"math"
	"sync"
	"time"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
)

// buckets count durations by their size: each is a tenth longer than the one
// before, from 10 µs on.
type buckets map[int]int64

const (
	bucketLeast = 10 * time.Microsecond
	bucketStep  = 1.1
)

func (b buckets) add(d time.Duration) {
	b[int(math.Floor(math.Log(float64(max(d, bucketLeast))/float64(bucketLeast))/math.Log(bucketStep)))]++
}

func (b buckets) merge(other buckets) {
	for i, n := range other {
		b[i] += n
	}
}

// at returns the duration that a share of all does not exceed, in milliseconds
// and to a tenth of itself; NaN if there are none.
func (b buckets) at(share float64) float64 {
	var all, last int64
	highest := 0
	for i, n := range b {
		all += n
		highest = max(highest, i)
	}
	if all == 0 {
		return math.NaN()
	}
	rank := max(1, int64(math.Ceil(share*float64(all))))
	for i := range highest + 1 {
		if last += b[i]; last >= rank {
			return bucketLeast.Seconds() * 1000 * math.Pow(bucketStep, float64(i)+0.5)
		}
	}
	return math.NaN()
}

// soakMeter keeps the latencies that the engine itself measures.
type soakMeter struct {
	mu           sync.Mutex
	start, claim buckets
}

var _ troupe.Metrics = (*soakMeter)(nil)

func newSoakMeter() *soakMeter { return &soakMeter{start: buckets{}, claim: buckets{}} }

// Add implements troupe.Metrics.
func (*soakMeter) Add(actors.Metric, float64, ...string) {}

// Set implements troupe.Metrics.
func (*soakMeter) Set(actors.Metric, float64, ...string) {}

// Observe implements troupe.Metrics.
func (m *soakMeter) Observe(metric actors.Metric, value float64, _ ...string) {
	if metric != actors.MetricTriggerToStart && metric != actors.MetricQueueWait {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d := time.Duration(value * float64(time.Second))
	if metric == actors.MetricTriggerToStart {
		m.start.add(d)
	} else {
		m.claim.add(d)
	}
}

// take returns what was counted since the last take.
func (m *soakMeter) take() (start, claim buckets) {
	m.mu.Lock()
	defer m.mu.Unlock()
	start, claim = m.start, m.claim
	m.start, m.claim = buckets{}, buckets{}
	return start, claim
}
