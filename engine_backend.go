package troupe

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/cluster/local"
	"github.com/troupe-dev/troupe/internal/host"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/memory"
)

// backend is what an engine works on: the adapters of its ports.
type backend struct {
	store persistence.Store
	ports actors.Ports
	pod   *atomic.Int64 // number of the pod, for the cluster's adapters
	// announce adds to a transaction that all pods hear of its runs when it
	// commits.
	announce func(ctx context.Context, tx pgx.Tx) error
	wake     func(ctx context.Context, wakes ...cluster.Wake) // tells all pods; nil: there are no others
	close    func() error
	probe    *probe                                                                 // of the lease; nil: nothing can be lost
	proxied  *probe                                                                 // of the pool; nil: it connects as the lease does
	launch   func(ctx context.Context, options actors.Options) (*actors.Pod, error) // nil: actors.Start
}

// openHost keeps everything where the host does.
func openHost(h host.Host) func(context.Context, Config) (*backend, error) {
	return func(context.Context, Config) (*backend, error) {
		return &backend{
			store: h.Store, pod: &atomic.Int64{}, launch: h.Launch,
			announce: func(context.Context, pgx.Tx) error { return nil },
			close:    func() error { return nil },
		}, nil
	}
}

// openMemory keeps everything in this process.
func openMemory(_ context.Context, config Config) (*backend, error) {
	store := memory.New(memory.Options{Now: time.Now, DeadReasons: config.DeadReasons}) //nolint:forbidigo // the store is its own database, and this its clock
	bus := local.NewBus(store)
	pod := &atomic.Int64{}
	return &backend{
		store: store, pod: pod,
		ports:    actors.Ports{Store: store, Listener: bus, Notifier: bus, Elector: bus.Elector(pod.Load)},
		announce: func(context.Context, pgx.Tx) error { return nil }, // its transactions are not pgx's
		close:    func() error { return nil },
	}, nil
}
