package acceptance

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/cluster/local"
	"github.com/troupe-dev/troupe/internal/host"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/memory"
)

// memoryCluster is a database in memory that several pods of one process share.
type memoryCluster struct {
	store *memory.Store
	bus   *local.Bus
}

func newMemoryCluster() *memoryCluster {
	store := memory.New(memory.Options{Now: time.Now})
	return &memoryCluster{store: store, bus: local.NewBus(store)}
}

// pod returns a new engine of the cluster, and the wire to its database.
func (w *memoryCluster) pod(t *testing.T, tune ...func(*troupe.Config)) (*troupe.Engine, *wire) {
	t.Helper()
	config := calm()
	for _, change := range tune {
		change(&config)
	}
	line := &wire{Store: w.store}
	engine, err := onStore(config, line, w.bus)
	require.NoError(t, err)
	return engine, line
}

// onStore returns an engine on a store and a bus that several pods of one test
// share.
func onStore(config troupe.Config, store persistence.Store, bus *local.Bus) (*troupe.Engine, error) {
	return troupe.NewOn(host.Host{Store: store, Launch: func(ctx context.Context, options actors.Options) (*actors.Pod, error) {
		pod := &atomic.Int64{}
		options.Joined = pod.Store
		options.Ports = actors.Ports{Store: store, Listener: bus, Notifier: bus, Elector: bus.Elector(pod.Load)}
		return actors.Start(ctx, options)
	}}, config)
}

// brisk gives a pod the default times, for tests that wait for a lease to end.
func brisk(c *troupe.Config) { *c = troupe.Config{} }

// wire is the connection of one pod to the database. Once it is cut every call fails:
// to other pods this pod is dead.
type wire struct {
	persistence.Store
	isCut atomic.Bool
}

// cut ends the connection, and with it the session that holds the leader's lock.
func (w *wire) cut(t *memoryCluster) {
	w.isCut.Store(true)
	t.bus.Depose()
}

func (w *wire) err() error {
	if w.isCut.Load() {
		return persistence.ErrUnavailable
	}
	return nil
}

func through[T any](w *wire, call func() (T, error)) (T, error) {
	if err := w.err(); err != nil {
		var none T
		return none, err
	}
	return call()
}

func (w *wire) TriggerRuns(ctx context.Context, triggers []persistence.Trigger, take persistence.GrantRequest) (persistence.Triggers, error) {
	return through(w, func() (persistence.Triggers, error) { return w.Store.TriggerRuns(ctx, triggers, take) })
}

func (w *wire) DrainIntake(ctx context.Context, limit int) (persistence.Drained, error) {
	return through(w, func() (persistence.Drained, error) { return w.Store.DrainIntake(ctx, limit) })
}

func (w *wire) ClaimTasks(ctx context.Context, request persistence.ClaimRequest) (persistence.Claimed, error) {
	return through(w, func() (persistence.Claimed, error) { return w.Store.ClaimTasks(ctx, request) })
}

func (w *wire) RecordTransitions(ctx context.Context, record persistence.Record) (persistence.Recorded, error) {
	return through(w, func() (persistence.Recorded, error) { return w.Store.RecordTransitions(ctx, record) })
}

func (w *wire) RenewPod(ctx context.Context, renewal persistence.Renewal) (persistence.Renewed, error) {
	return through(w, func() (persistence.Renewed, error) { return w.Store.RenewPod(ctx, renewal) })
}

func (w *wire) LeavePod(ctx context.Context, pod int64) (persistence.Wake, error) {
	return through(w, func() (persistence.Wake, error) { return w.Store.LeavePod(ctx, pod) })
}

func (w *wire) Ping(ctx context.Context, bytes int) error {
	_, err := through(w, func() (struct{}, error) { return struct{}{}, w.Store.Ping(ctx, bytes) })
	return err
}

func (w *wire) FireTimers(ctx context.Context, epoch int64, limit int) (persistence.Fired, error) {
	return through(w, func() (persistence.Fired, error) { return w.Store.FireTimers(ctx, epoch, limit) })
}

func (w *wire) ExpirePods(ctx context.Context, epoch int64, maxLost, limit int, by time.Time) (persistence.Expired, error) {
	return through(w, func() (persistence.Expired, error) { return w.Store.ExpirePods(ctx, epoch, maxLost, limit, by) })
}

func (w *wire) ParkTasks(ctx context.Context, epoch int64, limit int) (persistence.Parked, error) {
	return through(w, func() (persistence.Parked, error) { return w.Store.ParkTasks(ctx, epoch, limit) })
}
