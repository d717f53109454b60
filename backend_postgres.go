package troupe

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/actors"
	clusterpg "github.com/troupe-dev/troupe/cluster/postgres"
	"github.com/troupe-dev/troupe/migrations"
	"github.com/troupe-dev/troupe/persistence/postgres"
)

// openPostgres checks the schema and opens the adapters on it.
func openPostgres(ctx context.Context, pool *pgxpool.Pool, config Config) (*backend, error) {
	if err := checkSchema(ctx, pool, config.Schema); err != nil {
		return nil, err
	}
	options := postgres.Options{
		Pool: pool, Schema: config.Schema, PoolSize: int32(config.PoolSize), ApplicationName: "troupe " + config.PodName,
	}
	if config.DirectURL != "" {
		direct, err := pgx.ParseConfig(config.DirectURL)
		if err != nil {
			return nil, &ConfigError{Field: "DirectURL", Text: "cannot be parsed", Remedy: "use a connection string of PostgreSQL"}
		}
		options.Direct = direct
	}
	store, err := postgres.Open(ctx, options)
	if err != nil {
		return nil, err
	}
	pod := &atomic.Int64{}
	adapter, err := clusterpg.New(store.Pool(), clusterpg.Config{
		Schema: config.Schema, Pod: pod.Load, DirectURL: config.DirectURL, Logger: config.Logger,
	})
	if err != nil {
		store.Close()
		return nil, err
	}
	return &backend{
		store: store, pod: pod,
		ports: actors.Ports{Store: store, Listener: adapter, Stream: adapter, Notifier: adapter, Elector: adapter},
		close: func() error { store.Close(); return nil },
	}, nil
}

// checkSchema refuses a schema that this program cannot work with.
func checkSchema(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	report, err := migrations.Status(ctx, pool, schema)
	switch {
	case err != nil:
		return err
	case report.Version > report.Latest:
		return fmt.Errorf("schema %s is at version %d, this program knows %d: %w: run the newer program, or restore a backup",
			schema, report.Version, report.Latest, migrations.ErrNewer)
	case report.Version < report.Latest:
		return fmt.Errorf("schema %s is at version %d, this program needs %d: run `troupe migrate up` or migrations.Migrate first",
			schema, report.Version, report.Latest)
	}
	return nil
}
