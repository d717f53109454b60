package load

import (
	"sync/atomic"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
)

// meter keeps what only the engine knows of a pod: how much its transactions
// carried, how often it was woken, how many attempts failed unasked, and how many
// activations of machines there were. It starts with the load, not with the engine.
type meter struct {
	on                         atomic.Bool
	errored, lost, wakes       atomic.Int64
	activations                atomic.Int64
	triggers, claims, recorded batches
}

// batches adds up transactions of one kind.
type batches struct{ count, carried atomic.Int64 }

func (b *batches) add(carried float64) {
	b.count.Add(1)
	b.carried.Add(int64(carried))
}

// Batches is how many transactions of one kind there were, and how much all of
// them carried.
type Batches struct {
	Count   int64 `json:"count"`
	Carried int64 `json:"carried"`
}

func (b *batches) sum() Batches { return Batches{b.count.Load(), b.carried.Load()} }

// plus adds what another pod did.
func (b Batches) plus(other Batches) Batches {
	return Batches{b.Count + other.Count, b.Carried + other.Carried}
}

// average is how much one transaction carried.
func (b Batches) average() float64 {
	if b.Count == 0 {
		return 0
	}
	return float64(b.Carried) / float64(b.Count)
}

var _ troupe.Metrics = (*meter)(nil)

// Add implements troupe.Metrics.
func (m *meter) Add(metric actors.Metric, delta float64, labels ...string) {
	switch {
	case !m.on.Load():
	case metric == actors.MetricLosses:
		m.lost.Add(int64(delta))
	case metric == actors.MetricWakes:
		m.wakes.Add(int64(delta))
	case metric == actors.MetricAttempts && (labels[2] == "retried" || labels[2] == "failed") && labels[3] != askedClass:
		m.errored.Add(int64(delta))
	case metric == actors.MetricAttempts && labels[1] == machineStep && labels[2] == "succeeded":
		m.activations.Add(int64(delta))
	}
}

// Set implements troupe.Metrics.
func (m *meter) Set(actors.Metric, float64, ...string) {}

// Observe implements troupe.Metrics.
func (m *meter) Observe(metric actors.Metric, value float64, _ ...string) {
	switch {
	case !m.on.Load():
	case metric == actors.MetricTriggerBatch:
		m.triggers.add(value)
	case metric == actors.MetricClaimSize:
		m.claims.add(value)
	case metric == actors.MetricRecordBatch:
		m.recorded.add(value)
	}
}
