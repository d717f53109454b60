package troupe

import (
	"context"

	"github.com/troupe-dev/troupe/actors"
)

// ReadGauges returns the gauges of the whole database, such as how many tasks are ready
// and how old the oldest is, if this pod leads, and nothing if another one does. It is
// for exporters of metrics, which call it when they are asked: observe/prometheus does.
// It sends a statement at most every ten seconds.
func (e *Engine) ReadGauges(ctx context.Context) ([]actors.Measure, error) {
	pod, err := e.livePod()
	if err != nil {
		return nil, err
	}
	return called(ctx, pod.ReadGauges)
}
