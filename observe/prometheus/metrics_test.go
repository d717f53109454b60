package prometheus_test

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/actors"
	observe "github.com/troupe-dev/troupe/observe/prometheus"
)

// The code of docs/metrics.md serves metrics, also before the engine starts.
func TestServeMetrics(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://localhost/never_asked")
	require.NoError(t, err)
	defer pool.Close()
	mux := http.NewServeMux()
	_, err = engineWithMetrics(pool, mux)
	require.NoError(t, err)
	require.Contains(t, scrape(mux), "\ntroupe_losses_total 0\n")
}

// asked is an engine that leads, or does not, or cannot read.
type asked struct {
	measures []actors.Measure
	err      error
}

func (a asked) ReadGauges(context.Context) ([]actors.Measure, error) { return a.measures, a.err }

// exported returns a new Metrics with what it serves.
func exported(t *testing.T) (*observe.Metrics, func() string) {
	t.Helper()
	metrics := observe.New()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(metrics))
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	return metrics, func() string { return scrape(handler) }
}

// Every metric of the table is exported under its name, with its labels, as its kind.
func TestEveryMetricIsExported(t *testing.T) {
	t.Parallel()
	metrics, served := exported(t)
	var list []actors.Measure
	for _, d := range actors.MetricTable() {
		labels := make([]string, len(d.Labels))
		for i, name := range d.Labels {
			labels[i] = "a " + name
		}
		switch d.Kind {
		case actors.Counter:
			metrics.Add(d.Metric, 2, labels...)
			metrics.Add(d.Metric, 3, labels...)
		case actors.Gauge:
			metrics.Set(d.Metric, 4, labels...)
			metrics.Set(d.Metric, 5, labels...)
		case actors.Distribution:
			metrics.Observe(d.Metric, 2, labels...)
			metrics.Observe(d.Metric, 3, labels...)
		case actors.DatabaseGauge:
			list = append(list, actors.Measure{Metric: d.Metric, Value: 5, Labels: labels})
		}
	}
	metrics.Watch(asked{measures: list})
	text := served()
	for _, d := range actors.MetricTable() {
		kind, series := map[actors.MetricKind]string{
			actors.Counter: "counter", actors.Gauge: "gauge", actors.Distribution: "histogram", actors.DatabaseGauge: "gauge",
		}[d.Kind], d.Name
		if d.Kind == actors.Distribution {
			series += "_sum"
		}
		require.Contains(t, text, "# TYPE "+d.Name+" "+kind+"\n")
		found := regexp.MustCompile(`(?m)^` + series + `(\{.*\})? 5$`).FindStringSubmatch(text)
		require.NotEmpty(t, found, "%s in\n%s", series, text)
		for _, name := range d.Labels {
			require.Contains(t, found[1], name+`="a `+name+`"`)
		}
		require.Equal(t, len(d.Labels), strings.Count(found[1], `="a `))
	}
}

// A pod that does not lead, has ended or cannot read exports the rest.
func TestGaugesOfTheDatabaseMayBeMissing(t *testing.T) {
	t.Parallel()
	for _, engine := range []observe.Engine{asked{}, asked{err: errors.New("it is away")}, nil} {
		metrics, served := exported(t)
		if engine != nil {
			metrics.Watch(engine)
		}
		metrics.Set(actors.MetricLeading, 1)
		text := served()
		require.Contains(t, text, "troupe_leading 1\n")
		require.NotContains(t, text, "troupe_tasks_ready")
	}
}

// A label that is not UTF-8 costs its bytes, and neither the measure nor the scrape.
func TestLabelsThatAreNotText(t *testing.T) {
	t.Parallel()
	metrics, served := exported(t)
	metrics.Add(actors.MetricAttempts, 1, "flow", "step", "failed", "a\xffb")
	metrics.Observe(actors.MetricQueueWait, 1, "a\xffb")
	text := served()
	require.Contains(t, text, `class="a`+"\uFFFD"+`b"`)
	require.Contains(t, text, `tenant="a`+"\uFFFD"+`b"`)
}
