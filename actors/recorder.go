package actors

import (
	"context"
	"log/slog"
	"runtime/debug"
	"slices"
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

	mu    sync.Mutex
	sums  [metricEnd]float64
	names [metricEnd]map[string]struct{} // that a label which others choose has had
	told  time.Time                      // when a panic was last logged
}

// otherLabel stands for the values of a label beyond its limit.
const otherLabel = "other"

// labelLimit bounds the values of a label that people choose, or other programs: each is a
// series, or many, wherever the measures are stored.
type labelLimit struct {
	label int // index
	most  int // different values; those that come later are otherLabel
}

// labelLimits are the limits by metric. Workflows and steps of attempts are those of
// this pod, which are in its code.
var labelLimits = [metricEnd]labelLimit{
	MetricQueueWait: {0, 500}, // tenants
	MetricAttempts:  {3, 100}, // classes of errors
	MetricRunsEnded: {0, 500}, // workflows, also of other programs
	MetricChildRuns: {0, 500}, // workflows of this pod
}

// bounded returns the labels of a measure with a value beyond its limit replaced.
func (m *recorder) bounded(metric Metric, labels []string) []string {
	limit := labelLimits[metric]
	if limit.most == 0 || labels[limit.label] == "" {
		return labels
	}
	value := labels[limit.label]
	m.mu.Lock()
	_, known := m.names[metric][value]
	if !known && len(m.names[metric]) < limit.most {
		if m.names[metric] == nil {
			m.names[metric] = map[string]struct{}{}
		}
		m.names[metric][value], known = struct{}{}, true
	}
	m.mu.Unlock()
	if known {
		return labels
	}
	labels = slices.Clone(labels) // those of a step are kept
	labels[limit.label] = otherLabel
	return labels
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
	m.metrics.Add(metric, delta, m.bounded(metric, labels)...)
}

func (m *recorder) set(metric Metric, value float64, labels ...string) {
	m.mu.Lock()
	m.sums[metric] = value
	m.mu.Unlock()
	if m.none {
		return
	}
	defer m.contain(metric)
	m.metrics.Set(metric, value, labels...)
}

func (m *recorder) observe(metric Metric, value float64, labels ...string) {
	if m.none {
		return
	}
	defer m.contain(metric)
	m.metrics.Observe(metric, value, m.bounded(metric, labels)...)
}

// value is the sum of a counter, or the last value of a gauge.
func (m *recorder) value(metric Metric) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sums[metric]
}

// modulePath is that of this module.
const modulePath = "github.com/troupe-dev/troupe"

// buildVersion returns which version of this module the program has.
func buildVersion() string {
	build, _ := debug.ReadBuildInfo()
	return versionIn(build)
}

func versionIn(build *debug.BuildInfo) string {
	if build == nil {
		return "(unknown)"
	}
	for _, module := range append(build.Deps, &build.Main) {
		if module.Path == modulePath && module.Version != "" {
			return module.Version
		}
	}
	return "(devel)"
}
