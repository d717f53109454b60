package troupe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/cluster"
	clusterpg "github.com/troupe-dev/troupe/cluster/postgres"
	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/migrations"
	"github.com/troupe-dev/troupe/persistence/postgres"
)

// openPod is openPostgres for a pod. It also checks the pod's rights, since a pod
// writes to every table.
func openPod(ctx context.Context, pool *pgxpool.Pool, config Config) (*backend, error) {
	if err := checkAddress(pool); err != nil {
		return nil, err
	}
	if err := reach(ctx, pool, givenPool, reachMax); err != nil {
		return nil, err
	}
	if _, err := called(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, checkPod(ctx, pool, config.Schema)
	}); err != nil {
		return nil, err
	}
	return openAdapters(ctx, pool, config)
}

// reachMax is how long a pool has for its first connection.
const reachMax = 30 * time.Second

// givenPool is what the user's pool is called in errors.
const givenPool = "the pool that was given to the engine"

// reach returns why a pool gives no connection in time. It ignores errors of the
// server: the next check meets and reports them.
func reach(ctx context.Context, pool *pgxpool.Pool, name string, limit time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := pool.Acquire(limited)
	switch {
	case err == nil:
		conn.Release()
		return nil
	case limited.Err() == nil || ctx.Err() != nil:
		return nil
	}
	if stat := pool.Stat(); stat.AcquiredConns() >= stat.MaxConns() {
		return fmt.Errorf("%w: %s had no connection for %v: give back what others take from it, or make it larger",
			ErrUnavailable, name, limit)
	}
	return fmt.Errorf("%w: %s gave no connection within %v: its address neither answers nor refuses; if it names several hosts,"+
		" set connect_timeout in it, so that the next one is tried in time, and look at what is between", ErrUnavailable, name, limit)
}

// openPostgres checks the schema and opens the adapters on it.
func openPostgres(ctx context.Context, pool *pgxpool.Pool, config Config) (*backend, error) {
	if err := checkAddress(pool); err != nil {
		return nil, err
	}
	if err := migrations.Check(ctx, pool, config.Schema); err != nil {
		return nil, err
	}
	return openAdapters(ctx, pool, config)
}

// checkAddress returns why the pool cannot lead where it was meant to.
func checkAddress(pool *pgxpool.Pool) error {
	if problem, remedy := misread(pool.Config().ConnConfig); problem != "" {
		return fmt.Errorf("the address of %s %s: %s", givenPool, problem, remedy)
	}
	return nil
}

// checkPod returns why a pod cannot work. It checks the schema first: a schema that
// is not the engine's needs no rights.
func checkPod(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if err := migrations.Check(ctx, pool, schema); err != nil {
		return err
	}
	return migrations.CheckRights(ctx, pool, schema)
}

func openAdapters(ctx context.Context, pool *pgxpool.Pool, config Config) (*backend, error) {
	options := postgres.Options{
		Pool: pool, Schema: config.Schema, PoolSize: int32(config.PoolSize), ApplicationName: "troupe " + config.PodName,
		DeadReasons: config.DeadReasons, Logger: config.Logger, Tracer: config.Tracer,
	}
	if config.DirectURL != "" {
		direct, err := pgx.ParseConfig(config.DirectURL)
		if err != nil {
			return nil, &ConfigError{Field: "DirectURL", Text: "cannot be parsed", Remedy: "use a connection string of PostgreSQL"}
		}
		if problem, remedy := misread(direct); problem != "" {
			return nil, &ConfigError{Field: "DirectURL", Text: problem, Remedy: remedy}
		}
		options.Direct, options.Proxied = direct, true
		if err := checkDirect(ctx, pool.Config(), direct, config.Schema); err != nil {
			return nil, fmt.Errorf("DirectURL, which has to lead to the database of the pool: %w", err)
		}
	}
	store, err := called(ctx, func(ctx context.Context) (*postgres.Store, error) { return postgres.Open(ctx, options) })
	if err != nil {
		return nil, proxyError(err)
	}
	pod := &atomic.Int64{}
	adapter, err := clusterpg.New(store.Pool(), clusterpg.Config{
		Schema: config.Schema, Pod: pod.Load, DirectURL: config.DirectURL, Logger: config.Logger, LeaderPing: config.LeaderPing,
		Lineage: store.Lineage(), BeforeConnect: pool.Config().BeforeConnect, Give: store.Give,
	})
	if err != nil {
		store.Close()
		return nil, err
	}
	config.Logger.LogAttrs(ctx, slog.LevelInfo, "connection budget",
		slog.Int("engine_max", config.Connections()), slog.Int("of_them_pool", config.PoolSize), slog.Int("of_them_dedicated", dedicated),
		slog.Bool("pool_behind_proxy", options.Proxied), slog.Int("embedder_pool_max", int(pool.Config().MaxConns)))
	b := &backend{
		store: store, pod: pod, wake: waker(adapter),
		ports: actors.Ports{
			Store: store, Listener: adapter, Stream: adapter, Notifier: adapter, Elector: adapter, PoolUsage: poolUsage(pool),
		},
		announce: func(ctx context.Context, tx pgx.Tx) error {
			return adapter.NotifyTx(ctx, tx, cluster.Wake{Kind: cluster.WakeSubmitted})
		},
		close: func() error { store.Close(); return nil },
		probe: &probe{ping: store.PingLease, clock: clock.System{}},
	}
	if options.Proxied {
		b.proxied = &probe{ping: store.PingPool, clock: clock.System{}}
	}
	return b, nil
}

// checkDirect returns why the engine cannot work at DirectURL, with the remedy, or
// nil. The role there may differ from the pool's.
func checkDirect(ctx context.Context, config *pgxpool.Config, direct *pgx.ConnConfig, schema string) error {
	config.ConnConfig, config.MaxConns, config.MinConns, config.MinIdleConns = direct.Copy(), 1, 0, 0
	config.BeforeConnect, config.AfterConnect, config.PrepareConn, config.AfterRelease = nil, nil, nil, nil // they belong to the pool's address
	config.BeforeClose, config.ShouldPing = nil, nil
	config.BeforeAcquire = nil //nolint:staticcheck // deprecated, but a user's pool may have it
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := reach(ctx, pool, "DirectURL", reachMax); err != nil {
		return err
	}
	_, err = called(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, checkPod(ctx, pool, schema) })
	return err
}

// openReads opens a schema for reading. Unlike an engine, a reader can use a standby.
func openReads(ctx context.Context, pool *pgxpool.Pool, schema string) (*postgres.Reader, error) {
	if err := checkAddress(pool); err != nil {
		return nil, err
	}
	return called(ctx, func(ctx context.Context) (*postgres.Reader, error) {
		report, err := migrations.Status(ctx, pool, schema)
		switch {
		case err != nil:
			return nil, err
		case report.Version < report.Latest:
			return nil, fmt.Errorf("%w: schema %s is at version %d, this program needs %d: run `troupe migrate up` or migrations.Migrate first",
				migrations.ErrBehind, schema, report.Version, report.Latest)
		}
		reader, err := postgres.OpenReader(ctx, postgres.Options{Pool: pool, Schema: schema, ApplicationName: "troupe reader"})
		if proxied(err) {
			return nil, fmt.Errorf("a pooling proxy seems to stand before the pool: pass a pool of the server's own address: %w", err)
		}
		return reader, err
	})
}

// proxyError adds the remedy where a pooling proxy refuses what sessions need.
func proxyError(err error) error {
	if !proxied(err) {
		return err
	}
	return fmt.Errorf("%w: %w", &ConfigError{
		Field: "DirectURL", Text: "is missing, and a pooling proxy seems to stand before the pool",
		Remedy: "name the server's own address there",
	}, err)
}

// proxied reports whether a pooling proxy refused what sessions need.
func proxied(err error) bool {
	const protocolViolation = "08P01" // of parameters of a session
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == protocolViolation
}

// poolUsage reports the use of the embedder's pool, by steps with InTx and by step
// functions that take connections themselves.
func poolUsage(pool *pgxpool.Pool) func() actors.PoolUsage {
	return func() actors.PoolUsage {
		stat := pool.Stat()
		return actors.PoolUsage{InUse: int(stat.AcquiredConns()), Max: int(stat.MaxConns()), Acquired: stat.AcquireCount()}
	}
}

// wakeMax bounds a notification of the embedder's, or of a tool.
const wakeMax = 2 * time.Second

// waker notifies all pods, on a connection of the engine, since the embedder's may all be in
// use. If it fails, pods find what it was about at their next sweep.
func waker(adapter *clusterpg.Adapter) func(ctx context.Context, wakes ...cluster.Wake) {
	return func(ctx context.Context, wakes ...cluster.Wake) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wakeMax)
		defer cancel()
		_ = adapter.Notify(ctx, cluster.Notice{Wakes: wakes})
	}
}
