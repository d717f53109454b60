package troupe

import (
	"context"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/cluster/local"
	"github.com/troupe-dev/troupe/persistence"
)

// NewOnStore returns an engine on a store and a bus that several pods of one
// test share.
func NewOnStore(config Config, store persistence.Store, bus *local.Bus) (*Engine, error) {
	return newEngine(config, func(context.Context, Config) (*backend, error) {
		pod := &atomic.Int64{}
		return &backend{
			store: store, pod: pod,
			ports: actors.Ports{Store: store, Listener: bus, Notifier: bus, Elector: bus.Elector(pod.Load)},
			close: func() error { return nil },
		}, nil
	})
}
