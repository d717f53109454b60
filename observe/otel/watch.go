package otel

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/troupe-dev/troupe/actors"
)

// Engine is what a Telemetry watches: a *troupe.Engine.
type Engine interface {
	// ReadGauges returns the gauges of the whole database, or nothing.
	ReadGauges(ctx context.Context) ([]actors.Measure, error)
}

// watched is the engine of a Telemetry.
type watched struct {
	mu     sync.Mutex
	engine Engine
}

// readFor bounds the time that a collection waits for the database.
const readFor = 3 * time.Second

// Watch adds the gauges of the whole database to the metrics, such as how old the oldest
// ready task is: while engine leads, each collection reads them, at most every ten seconds.
// It may be called before the engine starts. Where they cannot be read they are missing,
// and troupe_store_errors_total counts that. Without meters it does nothing.
func (t *Telemetry) Watch(engine Engine) {
	if all, ok := t.metrics.(*instruments); ok {
		all.watched.mu.Lock()
		defer all.watched.mu.Unlock()
		all.watched.engine = engine
	}
}

// observe returns what a collection calls.
func (w *watched) observe(rows map[actors.Metric]*instrument) metric.Callback {
	return func(ctx context.Context, to metric.Observer) error {
		w.mu.Lock()
		engine := w.engine
		w.mu.Unlock()
		if engine == nil {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, readFor)
		defer cancel()
		list, _ := engine.ReadGauges(ctx) // the engine counts the error, and a pod that does not run has none
		for _, m := range list {
			row := rows[m.Metric]
			to.ObserveFloat64(row.read, m.Value, row.set(m.Labels))
		}
		return nil
	}
}
