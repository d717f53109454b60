package prometheus_test

import (
	"testing"

	"github.com/troupe-dev/troupe/actors"
	observe "github.com/troupe-dev/troupe/observe/prometheus"
)

// BenchmarkMeasure is what a task measures where it is alone: one attempt.
func BenchmarkMeasure(b *testing.B) {
	metrics := observe.New()
	attempt, duration := []string{"orders", "charge", "succeeded", ""}, []string{"orders", "charge"}
	b.Run("attempt", func(b *testing.B) {
		for b.Loop() {
			metrics.Add(actors.MetricAttempts, 1, attempt...)
		}
	})
	b.Run("duration", func(b *testing.B) {
		for b.Loop() {
			metrics.Observe(actors.MetricAttemptSeconds, 0.0123, duration...)
		}
	})
	b.Run("gauge", func(b *testing.B) {
		for b.Loop() {
			metrics.Set(actors.MetricRunning, 17)
		}
	})
	b.Run("wait", func(b *testing.B) {
		for b.Loop() {
			metrics.Observe(actors.MetricQueueWait, 0.0123, "default")
		}
	})
}
