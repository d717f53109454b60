package actors

import "sync"

// meter passes measures on to the embedder's Metrics and keeps the sums that
// Stats shows.
type meter struct {
	metrics Metrics

	mu   sync.Mutex
	sums map[Metric]float64
}

func newMeter(metrics Metrics) *meter {
	if metrics == nil {
		metrics = NoMetrics{}
	}
	return &meter{metrics: metrics, sums: map[Metric]float64{}}
}

func (m *meter) add(metric Metric, delta float64, labels ...string) {
	m.mu.Lock()
	m.sums[metric] += delta
	m.mu.Unlock()
	m.metrics.Add(metric, delta, labels...)
}

func (m *meter) set(metric Metric, value float64) {
	m.mu.Lock()
	m.sums[metric] = value
	m.mu.Unlock()
	m.metrics.Set(metric, value)
}

func (m *meter) observe(metric Metric, value float64, labels ...string) {
	m.metrics.Observe(metric, value, labels...)
}

// value is the sum of a counter, or the last value of a gauge.
func (m *meter) value(metric Metric) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sums[metric]
}
