package otel_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/observe/otel"
)

// TestMetricsHaveTheNamesOfTheTable: an instrument for each row, with its unit, its meaning and
// its labels.
func TestMetricsHaveTheNamesOfTheTable(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	telemetry, err := otel.New(nil, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	require.NoError(t, err)
	values := []string{"v0", "v1", "v2", "v3"}
	var gauges asked
	kept := telemetry.Metrics()
	want := map[string]actors.MetricDescription{}
	for _, d := range actors.MetricTable() {
		labels := values[:len(d.Labels)]
		switch d.Kind {
		case actors.Counter:
			kept.Add(d.Metric, 1, labels...)
			kept.Add(d.Metric, 2, labels...)
		case actors.Gauge:
			kept.Set(d.Metric, 1, labels...)
			kept.Set(d.Metric, 3, labels...)
		case actors.Distribution:
			kept.Observe(d.Metric, 3, labels...)
		case actors.DatabaseGauge:
			gauges = append(gauges, actors.Measure{Metric: d.Metric, Value: 3, Labels: labels})
		}
		want[d.Name] = d
	}
	telemetry.Watch(gauges)
	for _, m := range collect(t, reader) {
		d, known := want[m.Name]
		require.True(t, known, m.Name)
		delete(want, m.Name)
		require.Equal(t, d.Unit, m.Unit)
		require.Equal(t, d.Help, m.Description)
		set := map[string]string{}
		note := func(a attribute.Set) {
			for _, kv := range a.ToSlice() {
				set[string(kv.Key)] = kv.Value.AsString()
			}
		}
		switch data := m.Data.(type) {
		case metricdata.Sum[float64]:
			require.Equal(t, actors.Counter, d.Kind)
			require.True(t, data.IsMonotonic)
			require.InDelta(t, 3, data.DataPoints[0].Value, 0)
			note(data.DataPoints[0].Attributes)
		case metricdata.Gauge[float64]:
			require.Contains(t, []actors.MetricKind{actors.Gauge, actors.DatabaseGauge}, d.Kind)
			require.InDelta(t, 3, data.DataPoints[0].Value, 0)
			note(data.DataPoints[0].Attributes)
		case metricdata.Histogram[float64]:
			require.Equal(t, actors.Distribution, d.Kind)
			require.InDelta(t, 3, data.DataPoints[0].Sum, 0)
			require.Contains(t, data.DataPoints[0].Bounds, 10.0)
			note(data.DataPoints[0].Attributes)
		default:
			t.Fatalf("%s is a %T", m.Name, data)
		}
		require.Len(t, set, len(d.Labels))
		for i, label := range d.Labels {
			require.Equal(t, values[i], set[label], m.Name)
		}
	}
	require.Empty(t, want)
}

// asked is an engine that leads.
type asked []actors.Measure

func (a asked) ReadGauges(context.Context) ([]actors.Measure, error) { return a, nil }

// TestWatchReadsTheLeadersDatabase: an engine that leads shows what waits in its database; one
// that has not been started shows nothing.
func TestWatchReadsTheLeadersDatabase(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	telemetry, err := otel.New(nil, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	require.NoError(t, err)
	engine, err := troupe.NewInMemory(troupe.Config{Metrics: telemetry.Metrics()})
	require.NoError(t, err)
	telemetry.Watch(engine)
	shown := func() bool {
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				if m.Name == "troupe_tasks_ready" {
					return true
				}
			}
		}
		return false
	}
	require.False(t, shown())
	start(t, engine, func(context.Context, string) (int, error) { return 1, nil })
	require.Eventually(t, shown, time.Minute, time.Millisecond, "the engine leads")
}

// TestAnEngineCountsIntoAMeter: one span's worth of work is counted.
func TestAnEngineCountsIntoAMeter(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	telemetry, err := otel.New(nil, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	require.NoError(t, err)
	engine, err := troupe.NewInMemory(troupe.Config{Wrap: telemetry.Wrap, Metrics: telemetry.Metrics()})
	require.NoError(t, err)
	handle := start(t, engine, func(context.Context, string) (int, error) { return 1, nil })
	_, err = handle.Run(t.Context(), "")
	require.NoError(t, err)
	for _, m := range collect(t, reader) {
		if m.Name == "troupe_triggers_total" {
			sum, ok := m.Data.(metricdata.Sum[float64])
			require.True(t, ok)
			require.InDelta(t, 1, sum.DataPoints[0].Value, 0)
			result, _ := sum.DataPoints[0].Attributes.Value("result")
			require.Equal(t, "triggered", result.AsString())
			return
		}
	}
	t.Error("troupe_triggers_total is missing")
}

func collect(t *testing.T, reader sdkmetric.Reader) []metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	require.Len(t, all.ScopeMetrics, 1)
	return all.ScopeMetrics[0].Metrics
}
