package otel

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
)

// instruments is a Metrics on a Meter, with one instrument for each row of the table.
type instruments struct {
	rows    map[actors.Metric]*instrument
	watched watched
}

var _ troupe.Metrics = (*instruments)(nil)

// instrument is one row; three of the four are nil.
type instrument struct {
	labels  []string
	counter metric.Float64Counter
	gauge   metric.Float64Gauge
	spread  metric.Float64Histogram
	read    metric.Float64ObservableGauge

	mu   sync.RWMutex
	sets map[values]metric.MeasurementOption
}

// values are those of the labels of one series.
type values [labelsMax]string

const (
	// labelsMax is how many labels a metric has at most.
	labelsMax = 4
	// setsMax bounds the series whose attributes are kept, in one row. The engine bounds
	// most labels; the others are names in code.
	setsMax = 10_000
)

func newInstruments(meter metric.Meter) (*instruments, error) {
	all := &instruments{rows: map[actors.Metric]*instrument{}}
	var read []metric.Observable
	for _, d := range actors.MetricTable() {
		if len(d.Labels) > labelsMax {
			return nil, fmt.Errorf("metric %s has %d labels; at most %d", d.Name, len(d.Labels), labelsMax)
		}
		row := &instrument{labels: d.Labels, sets: map[values]metric.MeasurementOption{}}
		var err error
		switch d.Kind {
		case actors.DatabaseGauge:
			row.read, err = meter.Float64ObservableGauge(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.Help))
			read = append(read, row.read)
		case actors.Counter:
			row.counter, err = meter.Float64Counter(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.Help))
		case actors.Gauge:
			row.gauge, err = meter.Float64Gauge(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.Help))
		case actors.Distribution:
			row.spread, err = meter.Float64Histogram(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.Help), buckets(d.Unit))
		}
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", d.Name, err)
		}
		all.rows[d.Metric] = row
	}
	if _, err := meter.RegisterCallback(all.watched.observe(all.rows), read...); err != nil {
		return nil, fmt.Errorf("gauges of the database: %w", err)
	}
	return all, nil
}

// buckets suggests bounds, which a view of the SDK may replace: OpenTelemetry's own are for
// milliseconds.
func buckets(unit string) metric.Float64HistogramOption { //nolint:ireturn // an option of the API is an interface
	if unit == "s" {
		return metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)
	}
	return metric.WithExplicitBucketBoundaries(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
}

// Add implements troupe.Metrics.
func (i *instruments) Add(m actors.Metric, delta float64, labels ...string) {
	if row := i.rows[m]; row != nil && row.counter != nil {
		row.counter.Add(context.Background(), delta, row.set(labels))
	}
}

// Set implements troupe.Metrics.
func (i *instruments) Set(m actors.Metric, value float64, labels ...string) {
	if row := i.rows[m]; row != nil && row.gauge != nil {
		row.gauge.Record(context.Background(), value, row.set(labels))
	}
}

// Observe implements troupe.Metrics.
func (i *instruments) Observe(m actors.Metric, value float64, labels ...string) {
	if row := i.rows[m]; row != nil && row.spread != nil {
		row.spread.Record(context.Background(), value, row.set(labels))
	}
}

// set returns the attributes of a series. Those of the usual ones are made once.
func (r *instrument) set(labels []string) metric.MeasurementOption { //nolint:ireturn // an option of the API is an interface
	var key values
	copy(key[:], labels)
	r.mu.RLock()
	known := r.sets[key]
	r.mu.RUnlock()
	if known != nil {
		return known
	}
	list := make([]attribute.KeyValue, min(len(labels), len(r.labels)))
	for at := range list {
		list[at] = attribute.String(r.labels[at], labels[at])
	}
	made := metric.WithAttributeSet(attribute.NewSet(list...))
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sets) < setsMax {
		r.sets[key] = made
	}
	return made
}
