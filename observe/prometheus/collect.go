package prometheus

import (
	"context"
	"sync"
	"time"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-dev/troupe/actors"
)

// Engine is what a Metrics watches: a *troupe.Engine.
type Engine interface {
	// ReadGauges returns the gauges of the whole database, or nothing.
	ReadGauges(ctx context.Context) ([]actors.Measure, error)
}

// watched is the engine of a Metrics.
type watched struct {
	mu     sync.Mutex
	engine Engine
}

// readFor bounds the time that a scrape waits for the database. A scrape takes ten seconds
// at most by default, and is worth more without these gauges than not at all.
const readFor = 3 * time.Second

// Watch adds the gauges of the whole database to what is collected, such as how old
// the oldest ready task is: while engine leads, each scrape reads them, at most every
// ten seconds. It may be called before the engine starts. Where they cannot be read they
// are missing, and troupe_store_errors_total counts that.
func (m *Metrics) Watch(engine Engine) {
	m.watched.mu.Lock()
	defer m.watched.mu.Unlock()
	m.watched.engine = engine
}

var _ client.Collector = (*Metrics)(nil)

// Describe implements Collector.
func (m *Metrics) Describe(descriptions chan<- *client.Desc) {
	for n := range m.instruments {
		switch i := &m.instruments[n]; {
		case i.counter != nil:
			i.counter.Describe(descriptions)
		case i.gauge != nil:
			i.gauge.Describe(descriptions)
		case i.histogram != nil:
			i.histogram.Describe(descriptions)
		case i.read != nil:
			descriptions <- i.read
		}
	}
}

// Collect implements Collector.
func (m *Metrics) Collect(metrics chan<- client.Metric) {
	for n := range m.instruments {
		switch i := &m.instruments[n]; {
		case i.counter != nil:
			i.counter.Collect(metrics)
		case i.gauge != nil:
			i.gauge.Collect(metrics)
		case i.histogram != nil:
			i.histogram.Collect(metrics)
		}
	}
	for _, measure := range m.read() {
		i := &m.instruments[measure.Metric]
		metrics <- client.MustNewConstMetric(i.read, client.GaugeValue, measure.Value, i.exportable(measure.Labels)...)
	}
}

// read returns the gauges of the database. Their error is counted by the engine, and a
// pod that does not run has none.
func (m *Metrics) read() []actors.Measure {
	m.watched.mu.Lock()
	engine := m.watched.engine
	m.watched.mu.Unlock()
	if engine == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), readFor)
	defer cancel()
	list, _ := engine.ReadGauges(ctx)
	return list
}
