package actors

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// broken is a Metrics with a mistake in it.
type broken struct{}

var _ Metrics = broken{}

func (broken) Add(Metric, float64, ...string)     { panic("a wrong number of labels") }
func (broken) Set(Metric, float64, ...string)     { panic("a wrong number of labels") }
func (broken) Observe(Metric, float64, ...string) { panic("a wrong number of labels") }

// A Metrics that panics, wherever it is called, costs its measures: actors go on,
// are restarted and stop, and the log says so now and then.
func TestAMetricsThatPanicsCostsItsMeasures(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var text bytes.Buffer
		w.metrics, w.log = broken{}, slog.New(slog.NewTextHandler(&text, nil))
		w.register(storetest.Diamond(), newGauge().work(time.Second))
		p := w.start(Config{})
		begun := time.Now()
		var runs []workflow.RunID
		for _, victim := range []string{"intake", "runs", "journal", "claimer", "timekeeper"} {
			runs = append(runs, w.trigger(p, "diamond"))
			kill(p, victim)
			kill(p, "pulse")
		}
		w.completed(runs...)
		require.NoError(t, p.Stop(t.Context()))
		require.Positive(t, p.Stats().Restarts, "what the pod itself counts is there")
		lines := strings.Count(text.String(), "Config.Metrics panicked")
		require.Positive(t, lines)
		require.LessOrEqual(t, lines, 1+int(time.Since(begun)/metricsPause))
	})
}

// A pod whose actors do not answer any more is not waited for for ever.
func TestAPodThatDoesNotAnswerIsKilled(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.single(newGauge().work(time.Second), Config{})
		names := make(chan []string)
		defer func() { <-names }()
		p.rt.send(p.rt.addresses.pod, &listChildren{to: names}) // waits until the test reads
		begun := time.Now()
		p.Kill()
		require.ErrorIs(t, p.Err(), errUnresponsiveActors)
		require.LessOrEqual(t, time.Since(begun), p.rt.config.EndGrace+killMax)
	})
}
