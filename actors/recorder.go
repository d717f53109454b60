package actors

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/panics"
)

// recorder passes measures on to the embedder's Metrics and keeps the sums that
// Stats shows. A Metrics that panics costs its measures and nothing else: actors
// and their supervision measure where nothing may fail.
type recorder struct {
	metrics Metrics
	none    bool // metrics discards everything
	log     *slog.Logger
	now     func() time.Time

	mu   sync.Mutex
	sums [metricEnd]float64
	told time.Time // when a panic was last logged
}

func newRecorder(metrics Metrics, log *slog.Logger, now func() time.Time) *recorder {
	if metrics == nil {
		metrics = NoMetrics{}
	}
	_, none := metrics.(NoMetrics)
	return &recorder{metrics: metrics, none: none, log: log, now: now}
}

// metricsPause is the time between two lines about a Metrics that panics.
const metricsPause = time.Minute

// contain ends a panic of the embedder's. It is deferred.
func (m *recorder) contain(metric Metric) {
	reason := recover()
	if reason == nil {
		return
	}
	now := m.now()
	m.mu.Lock()
	tell := m.told.IsZero() || now.Sub(m.told) >= metricsPause
	if tell {
		m.told = now
	}
	m.mu.Unlock()
	if tell {
		m.log.LogAttrs(context.Background(), slog.LevelError, "Config.Metrics panicked, the measure is lost",
			slog.String("metric", MetricTable()[metric-1].Name), slog.String("reason", panics.Text(reason)))
	}
}

func (m *recorder) add(metric Metric, delta float64, labels ...string) {
	m.mu.Lock()
	m.sums[metric] += delta
	m.mu.Unlock()
	if m.none {
		return
	}
	defer m.contain(metric)
	m.metrics.Add(metric, delta, labels...)
}

func (m *recorder) set(metric Metric, value float64) {
	m.mu.Lock()
	m.sums[metric] = value
	m.mu.Unlock()
	if m.none {
		return
	}
	defer m.contain(metric)
	m.metrics.Set(metric, value)
}

func (m *recorder) observe(metric Metric, value float64, labels ...string) {
	if m.none {
		return
	}
	defer m.contain(metric)
	m.metrics.Observe(metric, value, labels...)
}

// value is the sum of a counter, or the last value of a gauge.
func (m *recorder) value(metric Metric) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sums[metric]
}
