package load

import (
	"sync/atomic"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
)

// meter counts what went wrong on a pod although nobody asked for it. It starts
// with the load, not with the engine.
type meter struct {
	on            atomic.Bool
	errored, lost atomic.Int64
}

var _ troupe.Metrics = (*meter)(nil)

// Add implements troupe.Metrics.
func (m *meter) Add(metric actors.Metric, delta float64, labels ...string) {
	switch {
	case !m.on.Load():
	case metric == actors.MetricLosses:
		m.lost.Add(int64(delta))
	case metric == actors.MetricAttempts && labels[0] == "errored" && labels[1] != askedClass:
		m.errored.Add(int64(delta))
	}
}

// Set implements troupe.Metrics.
func (m *meter) Set(actors.Metric, float64, ...string) {}

// Observe implements troupe.Metrics.
func (m *meter) Observe(actors.Metric, float64, ...string) {}
