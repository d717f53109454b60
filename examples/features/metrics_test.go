package features_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
)

// counters is a Metrics that keeps the counters, by name and labels, and how
// often a distribution was added to. One for
// Prometheus or OpenTelemetry makes its instruments from the same table.
type counters struct {
	names map[actors.Metric]string

	mu   sync.Mutex
	sums map[string]float64
}

func newCounters() *counters {
	c := &counters{names: map[actors.Metric]string{}, sums: map[string]float64{}}
	for _, description := range actors.MetricTable() {
		c.names[description.Metric] = description.Name
	}
	return c
}

func (c *counters) Add(metric actors.Metric, delta float64, labels ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sums[c.names[metric]+"{"+strings.Join(labels, ",")+"}"] += delta
}

func (*counters) Set(actors.Metric, float64, ...string) {}

func (c *counters) Observe(metric actors.Metric, _ float64, labels ...string) {
	c.Add(metric, 1, labels...)
}

func (c *counters) sum(name string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sums[name]
}

// The engine counts into what Config.Metrics holds; docs/metrics.md has the
// names and labels.
func TestMetrics(t *testing.T) {
	kept := newCounters()
	inMemory(t, troupe.Config{Metrics: kept}, double("counted"), func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[int, int]) {
		_, err := handle.Run(t.Context(), 1)
		require.NoError(t, err)
		require.InDelta(t, 1, kept.sum("troupe_triggers_total{triggered}"), 0)
		require.InDelta(t, 1, kept.sum("troupe_attempts_total{counted,double,succeeded,}"), 0)
		require.InDelta(t, 1, kept.sum("troupe_attempt_seconds{counted,double}"), 0)
		require.True(t, engine.Health(t.Context()).Ready, "for a readiness probe")
	})
}
