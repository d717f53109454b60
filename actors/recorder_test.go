package actors

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/persistence"
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

// A metric that is described and never measured is a graph that stays empty.
func TestEveryMetricIsMeasured(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var measured strings.Builder
	for _, path := range append(paths, "../engine_logs.go") { // what the engine itself measures
		if path != "metrics.go" && !strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			measured.Write(text)
		}
	}
	text, err := os.ReadFile("metrics.go")
	require.NoError(t, err)
	names := regexp.MustCompile(`(?m)^\tMetric[A-Za-z]+$`).FindAllString(string(text), -1)
	require.Len(t, names, len(MetricTable()))
	for _, name := range names {
		require.Regexp(t, strings.TrimSpace(name)+`\b`, measured.String())
	}
}

// seized is a Metrics that does something else with the next measure of a batch of
// triggers, which an actor takes.
type seized struct {
	NoMetrics

	next atomic.Pointer[func()]
}

func (s *seized) Observe(metric Metric, _ float64, _ ...string) {
	if metric != MetricTriggerBatch {
		return
	}
	if do := s.next.Swap(nil); do != nil {
		(*do)()
	}
}

// A Metrics that ends the goroutine of an actor ends the pod, with an error: the actor
// would never answer and cannot be restarted. Other pods take the tasks over.
func TestAMetricsThatEndsAnActorEndsThePod(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		metrics := &seized{}
		w.metrics = metrics
		p := w.single(newGauge().work(5*time.Second), Config{})
		held := w.trigger(p, "single")
		pass(time.Second)
		exit := goruntime.Goexit
		metrics.next.Store(&exit)
		_, refused, err := p.Trigger(t.Context(), []persistence.Trigger{w.order("single")})
		require.True(t, refused != nil || err != nil)
		pass(time.Second)
		require.True(t, p.over())
		require.ErrorIs(t, p.Err(), ErrActorGone)
		require.ErrorContains(t, p.Err(), "intake")
		w.metrics = nil
		w.start(Config{})
		w.completed(held)
		tasks := w.tasks(held)
		require.Zero(t, tasks[0].Lost, "it was handed back")
	})
}

// touchy is a context of the embedder's whose Err panics.
type touchy struct{ context.Context }

// Err implements context.Context.
func (touchy) Err() error { panic("an actor asked") }

// No actor calls a context of the embedder's: it may panic, or block.
func TestNoActorAsksACallersContext(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store, p := w.cramp(0)
		held := w.hang("cancel")
		done := make(chan struct{}, 2)
		caller := touchy{t.Context()}
		go func() {
			_, refused, err := p.Trigger(caller, []persistence.Trigger{w.order("single")})
			require.Nil(t, refused)
			require.NoError(t, err)
			done <- struct{}{}
		}()
		go func() {
			_, _ = p.Cancel(caller, persistence.Cancel{Run: p.NewRunID(), Grace: time.Second})
			done <- struct{}{}
		}()
		pass(5 * time.Second)
		require.Zero(t, p.Stats().Restarts)
		require.False(t, p.over())
		store.room.Store(1)
		held()
		<-done
		<-done
		require.Zero(t, p.Stats().Restarts)
	})
}

// A pod with an actor stuck in Metrics is not ready, and reports the actor.
func TestAMetricsThatHangsMakesThePodUnready(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		metrics := &seized{}
		w.metrics = metrics
		p := w.single(newGauge().work(time.Second), Config{})
		goOn := make(chan struct{})
		hang := func() { <-goOn }
		metrics.next.Store(&hang)
		stored := make(chan persistence.TriggerAnswer, 1)
		go func() {
			answers, _, _ := p.Trigger(w.t.Context(), []persistence.Trigger{w.order("single")})
			stored <- answers[0]
		}()
		pass(vitals.StuckAfter - time.Second)
		require.True(t, p.Stats().Ready)
		pass(2 * time.Second)
		s := p.Stats()
		require.False(t, s.Ready)
		require.GreaterOrEqual(t, s.Stalled, vitals.StuckAfter)
		require.Contains(t, s.Degraded, "Config.Metrics has not returned to an actor (intake)")
		close(goOn)
		w.completed((<-stored).Run)
		s = p.Stats()
		require.True(t, s.Ready)
		require.Zero(t, s.Stalled)
	})
}
