package actors

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// kept is a Metrics that keeps sums and observations, by name and labels.
type kept struct {
	NoMetrics

	mu       sync.Mutex
	sums     map[string]float64
	observed map[string][]float64
}

func newKept() *kept { return &kept{sums: map[string]float64{}, observed: map[string][]float64{}} }

func series(metric Metric, labels []string) string {
	d := MetricTable()[metric-1]
	if len(labels) != len(d.Labels) {
		panic(fmt.Sprintf("%s has %d labels: %v", d.Name, len(d.Labels), labels))
	}
	return d.Name + "{" + strings.Join(labels, ",") + "}"
}

func (k *kept) Add(metric Metric, delta float64, labels ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sums[series(metric, labels)] += delta
}

func (k *kept) Observe(metric Metric, value float64, labels ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := series(metric, labels)
	k.observed[name] = append(k.observed[name], value)
}

func (k *kept) sum(name string) float64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sums[name]
}

// of returns what was counted of a metric.
func (k *kept) of(name string) map[string]float64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	found := map[string]float64{}
	for series, sum := range k.sums {
		if labels, is := strings.CutPrefix(series, name+"{"); is {
			found[strings.TrimSuffix(labels, "}")] = sum
		}
	}
	return found
}

// Attempts are counted by workflow, step, outcome and class, and runs by how they end.
func TestAttemptsAndRunsAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		metrics := newKept()
		w.metrics = metrics
		attempts, endless := 0, storetest.Chain(2)
		w.register(storetest.Single(), func(context.Context, Inputs) (Output, error) {
			attempts++
			switch attempts {
			case 1, 2:
				return Output{}, WithClass("flaky", errors.New("it is away"))
			case 4:
				return Output{}, Terminal(WithClass("broken", errors.New("it is gone")))
			}
			return Output{}, nil
		}, func(f *StepFunction) { f.Options.Retry = workflow.RetryPolicy{Attempts: 5, First: time.Second} })
		w.register(endless, func(ctx context.Context, _ Inputs) (Output, error) {
			<-ctx.Done()
			return Output{}, context.Cause(ctx)
		})
		p := w.start(Config{})
		w.completed(w.trigger(p, "single"))
		w.ended(w.trigger(p, "single"))
		canceled := w.trigger(p, endless.Name)
		pass(time.Second)
		w.cancel(p, persistence.Cancel{Run: canceled, Tenant: "default", Grace: time.Minute})
		w.ended(canceled)
		pass(time.Second)
		require.Equal(t, map[string]float64{
			"single,a,retried,flaky": 2, "single,a,succeeded,": 1, "single,a,failed,broken": 1,
			endless.Name + "," + endless.Nodes[0].Name + ",canceled,canceled": 1,
		}, metrics.of("troupe_attempts_total"))
		require.Equal(t, map[string]float64{
			"single,completed": 1, "single,failed": 1, endless.Name + ",canceled": 1,
		}, metrics.of("troupe_runs_ended_total"))
	})
}

// What a run waits for before it begins is not in the time from its begin to its start, nor
// are retries and later steps.
func TestTriggerToStartIsWithoutTheWaitOfAt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		metrics := newKept()
		w.metrics = metrics
		chain, failed := storetest.Chain(3), false
		w.register(chain, func(context.Context, Inputs) (Output, error) {
			if !failed {
				failed = true
				return Output{}, errors.New("once")
			}
			<-time.After(time.Minute)
			return Output{}, nil
		}, func(f *StepFunction) { f.Options.Retry = workflow.RetryPolicy{Attempts: 2, First: 10 * time.Minute} })
		p := w.start(Config{})
		pass(time.Minute)
		now, later := w.order(chain.Name), w.order(chain.Name)
		later.At = time.Now().Add(30 * time.Minute)
		for _, answer := range w.stores(p, []persistence.Trigger{now, later}) {
			w.completed(answer.Run)
		}
		waits := metrics.observed["troupe_trigger_to_start_seconds{}"]
		require.Len(t, waits, 2)
		require.Less(t, slices.Max(waits), 5.0)
	})
}

// The database is asked for gauges by the pod that leads, when it is asked itself, and at
// most every ten seconds.
func TestGaugesAreReadWhenAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		metrics := newKept()
		w.metrics = metrics
		w.register(storetest.Single(), untilClosed(w.done))
		leads := w.start(Config{Slots: 1})
		pass(time.Minute)
		other := w.start(Config{Slots: 1})
		pass(time.Minute)
		reads := func() int { return w.faults.count("backlog") }
		require.True(t, leads.Stats().Leading)
		w.many(leads, "single", 5)
		pass(time.Hour)
		require.Zero(t, reads(), "a pod that is not asked asks nothing")
		none, err := other.ReadGauges(t.Context())
		require.NoError(t, err)
		require.Empty(t, none)
		require.Zero(t, reads(), "only the pod that leads does")
		value := func(metric Metric, labels ...string) float64 {
			list, err := leads.ReadGauges(t.Context())
			require.NoError(t, err)
			for _, m := range list {
				if m.Metric == metric && slices.Equal(m.Labels, labels) {
					return m.Value
				}
			}
			require.FailNow(t, "it is missing", "%v of %v", series(metric, labels), list)
			return 0
		}
		var together sync.WaitGroup
		for range 10 {
			together.Go(func() { value(MetricReady, DefaultQueue) })
		}
		together.Wait()
		require.InDelta(t, 3, value(MetricReady, DefaultQueue), 0)
		require.InDelta(t, time.Hour.Seconds(), value(MetricReadyOldest, DefaultQueue), 1)
		require.Equal(t, 1, reads(), "all at once share one read")
		pass(GaugesFor - time.Second)
		value(MetricReady, DefaultQueue)
		require.Equal(t, 1, reads())
		pass(time.Second)
		value(MetricReady, DefaultQueue)
		require.Equal(t, 2, reads())

		w.faults.failBefore(func(_ context.Context, call string) error {
			if call == "backlog" {
				return persistence.ErrUnavailable
			}
			return nil
		})
		pass(GaugesFor)
		for range 3 {
			_, err = leads.ReadGauges(t.Context())
			require.ErrorIs(t, err, persistence.ErrUnavailable)
		}
		require.Equal(t, 3, reads(), "a database that does not answer is not asked more often")
		require.InDelta(t, 1, metrics.sum("troupe_store_errors_total{backlog}"), 0)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		pass(GaugesFor)
		_, err = leads.ReadGauges(ended)
		require.Error(t, err)
		w.faults.failBefore(nil)
		value(MetricReady, DefaultQueue)
	})
}

// What is counted by many names is bounded, and nothing is left out of the sum.
func TestParkedStepsAreBounded(t *testing.T) {
	t.Parallel()
	b := persistence.Backlog{}
	for i := range parkedMax + 2 {
		b.Parked = append(b.Parked, persistence.ParkedBacklog{Workflow: "flow", Step: fmt.Sprint(i), Count: 1 + i})
	}
	var list []Measure
	for _, m := range measuresOf(&b) {
		if m.Metric == MetricParkedTasks {
			list = append(list, m)
		}
	}
	require.Len(t, list, parkedMax+1)
	require.Equal(t, Measure{MetricParkedTasks, parkedMax + 2, []string{"flow", fmt.Sprint(parkedMax + 1)}}, list[0], "the most first")
	require.Equal(t, Measure{MetricParkedTasks, 3, []string{otherLabel, otherLabel}}, list[parkedMax])
}

// Labels that callers choose have a limit; beyond it values are counted together. A
// label that has one keeps it.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	metrics := newKept()
	m := newRecorder(metrics, nil, time.Now)
	for range 2 {
		for i := range 600 {
			m.observe(MetricQueueWait, 1, fmt.Sprint("tenant-", i))
		}
	}
	require.Len(t, metrics.observed, 501)
	require.Len(t, metrics.observed["troupe_queue_wait_seconds{other}"], 200)
	require.Len(t, metrics.observed["troupe_queue_wait_seconds{tenant-499}"], 2)

	labels := []string{"flow", "step", outcomeFailed, ""}
	for i := range 150 {
		labels[3] = fmt.Sprint("class-", i)
		m.add(MetricAttempts, 1, labels...)
	}
	m.add(MetricAttempts, 1, "flow", "step", outcomeSucceeded, "")
	require.Equal(t, "class-149", labels[3], "the caller's are not changed")
	require.InDelta(t, 50, metrics.sum("troupe_attempts_total{flow,step,failed,other}"), 0)
	require.InDelta(t, 1, metrics.sum("troupe_attempts_total{flow,step,succeeded,}"), 0)
	require.InDelta(t, 151, m.value(MetricAttempts), 0)
}

// No metric has a label whose values callers choose without a limit.
func TestLabelsThatCallersChooseHaveLimits(t *testing.T) {
	t.Parallel()
	for _, d := range MetricTable() {
		if d.Kind == DatabaseGauge {
			continue // what they name is bounded where they are read
		}
		for i, label := range d.Labels {
			if slices.Contains([]string{"tenant", "class"}, label) || label == "workflow" && !slices.Contains(d.Labels, "step") {
				require.Equal(t, i, labelLimits[d.Metric].label, "%s: %s", d.Name, label)
				require.Positive(t, labelLimits[d.Metric].most, "%s: %s", d.Name, label)
			}
		}
	}
}

func TestBuildVersion(t *testing.T) {
	t.Parallel()
	main := debug.Module{Path: "example.org/app", Version: "v9.0.0"}
	require.Equal(t, "(unknown)", versionIn(nil))
	require.Equal(t, "(devel)", versionIn(&debug.BuildInfo{Main: main}))
	require.Equal(t, "v1.2.3", versionIn(&debug.BuildInfo{Main: main, Deps: []*debug.Module{{Path: modulePath, Version: "v1.2.3"}}}))
	require.Equal(t, "v1.2.4", versionIn(&debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: "v1.2.4"}}))
}
