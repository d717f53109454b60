// Package prometheus exports what engines measure to Prometheus.
//
// A [Metrics] is what Config.Metrics takes, and a Collector that a registry of
// client_golang takes:
//
//	metrics := prometheus.New()
//	engine, err := troupe.New(pool, troupe.Config{Metrics: metrics})
//	registry.MustRegister(metrics)
//	metrics.Watch(engine)
//
// It has every metric of actors.MetricTable under its name. Distributions are
// histograms with classic buckets, and native ones where the server scrapes those.
package prometheus

import (
	"fmt"
	"strings"
	"sync"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-dev/troupe/actors"
)

// Metrics receives what one engine measures. It is safe for concurrent use. Engines of one
// process have one each, told apart by a label of client_golang's
// WrapRegistererWith: they would overwrite each other's gauges.
type Metrics struct {
	instruments []instrument // by metric
	watched     watched
}

var _ actors.Metrics = (*Metrics)(nil)

// instrument is how one metric is exported: one of the vectors is set, or the description
// of a gauge that Collect reads.
type instrument struct {
	name      string
	labels    int
	counter   *client.CounterVec
	gauge     *client.GaugeVec
	histogram *client.HistogramVec
	read      *client.Desc

	counters   children[client.Counter]
	gauges     children[client.Gauge]
	histograms children[client.Observer]
}

// labelsMax is how many labels a metric has at most.
const labelsMax = 4

// children are the series of a vector that were used. A vector hashes the labels of each
// measure anew, which costs a task five times as much.
type children[T any] struct {
	only  T // of a metric without labels
	mu    sync.RWMutex
	known map[[labelsMax]string]T
}

// of returns the series of some labels, if it was used.
func (c *children[T]) of(labels []string) (child T, known bool) {
	if len(labels) == 0 {
		return c.only, true
	}
	var key [labelsMax]string
	copy(key[:], labels)
	c.mu.RLock()
	child, known = c.known[key]
	c.mu.RUnlock()
	return child, known
}

// add returns the series of some labels, which get finds or makes.
func (c *children[T]) add(i *instrument, labels []string, get func(labels ...string) (T, error)) T {
	child, err := get(labels...)
	if err != nil {
		child, err = get(i.exportable(labels)...)
	}
	if err != nil {
		panic(err) // which the engine reports
	}
	var key [labelsMax]string
	copy(key[:], labels)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[[labelsMax]string]T{}
	}
	c.known[key] = child
	return child
}

// New returns Metrics that have measured nothing yet.
func New() *Metrics {
	table := actors.MetricTable()
	m := &Metrics{instruments: make([]instrument, len(table)+1)} // metrics are counted from 1
	for i := range table {
		newInstrument(&table[i], &m.instruments[table[i].Metric])
	}
	return m
}

func newInstrument(d *actors.MetricDescription, i *instrument) {
	i.name, i.labels = d.Name, len(d.Labels)
	switch d.Kind {
	case actors.Counter:
		i.counter = client.NewCounterVec(client.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
		if i.labels == 0 {
			i.counters.only = i.counter.WithLabelValues()
		}
	case actors.Gauge:
		i.gauge = client.NewGaugeVec(client.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels)
		if i.labels == 0 {
			i.gauges.only = i.gauge.WithLabelValues()
		}
	case actors.Distribution:
		i.histogram = client.NewHistogramVec(histogramOf(d), d.Labels)
		if i.labels == 0 {
			i.histograms.only = i.histogram.WithLabelValues()
		}
	case actors.DatabaseGauge:
		i.read = client.NewDesc(d.Name, d.Help, d.Labels, nil)
	}
}

// Bounds of the classic buckets by unit. Each bound is a series for each tenant, or step.
var (
	secondBuckets = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
	countBuckets  = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
)

// Native buckets grow by a tenth, and so many at most are kept of a histogram.
const (
	nativeGrowth = 1.1
	nativeMax    = 160
)

func histogramOf(d *actors.MetricDescription) client.HistogramOpts {
	buckets := countBuckets
	if d.Unit == "s" {
		buckets = secondBuckets
	}
	return client.HistogramOpts{
		Name: d.Name, Help: d.Help, Buckets: buckets,
		NativeHistogramBucketFactor: nativeGrowth, NativeHistogramMaxBucketNumber: nativeMax,
	}
}

// Add implements actors.Metrics.
func (m *Metrics) Add(metric actors.Metric, delta float64, labels ...string) {
	i := &m.instruments[metric]
	child, known := i.counters.of(labels)
	if !known {
		child = i.counters.add(i, labels, i.counter.GetMetricWithLabelValues)
	}
	child.Add(delta)
}

// Set implements actors.Metrics.
func (m *Metrics) Set(metric actors.Metric, value float64, labels ...string) {
	i := &m.instruments[metric]
	child, known := i.gauges.of(labels)
	if !known {
		child = i.gauges.add(i, labels, i.gauge.GetMetricWithLabelValues)
	}
	child.Set(value)
}

// Observe implements actors.Metrics.
func (m *Metrics) Observe(metric actors.Metric, value float64, labels ...string) {
	i := &m.instruments[metric]
	child, known := i.histograms.of(labels)
	if !known {
		child = i.histograms.add(i, labels, i.histogram.GetMetricWithLabelValues)
	}
	child.Observe(value)
}

// exportable returns labels that Prometheus takes, which wants text in UTF-8. A wrong
// number of them is a mistake of the engine, which it reports.
func (i *instrument) exportable(labels []string) []string {
	if len(labels) != i.labels {
		panic(fmt.Sprintf("%s has %d labels, not %d", i.name, i.labels, len(labels)))
	}
	valid := make([]string, len(labels))
	for n, label := range labels {
		valid[n] = strings.ToValidUTF8(label, "\uFFFD")
	}
	return valid
}
