package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/internal/pgdev"
	"github.com/troupe-dev/troupe/migrations"
)

// Bed is a server, and on it a database with the engine's tables. One
// goroutine uses it.
type Bed struct {
	Host   Host
	Server Server
	Pool   *pgxpool.Pool // of the measurer
	URL    string        // of the database

	pg   *pgdev.Server
	name string // of the database
}

// privateSettings are those of a server with some memory. Everything that
// makes commits durable stays on.
func privateSettings() map[string]string {
	return map[string]string{"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "15min"}
}

// Open makes a database on the server at the address, or on one that it starts
// if the address is empty.
func Open(ctx context.Context, address string) (*Bed, error) {
	server, err := startServer(ctx, address)
	if err != nil {
		return nil, err
	}
	b := &Bed{Host: thisHost(), pg: server, name: fmt.Sprintf("troupe_bench_%d_%d", os.Getpid(), time.Now().UnixNano()%1e9)}
	if err := b.Renew(ctx); err != nil {
		return nil, errors.Join(err, b.Close(ctx))
	}
	if b.Server, err = readServer(ctx, b.Pool, !server.Foreign()); err != nil {
		return nil, errors.Join(err, b.Close(ctx))
	}
	return b, nil
}

func startServer(ctx context.Context, address string) (*pgdev.Server, error) {
	if address != "" {
		return pgdev.Attach(ctx, address)
	}
	return pgdev.Start(ctx, pgdev.Options{Private: true, Download: true, Settings: privateSettings()})
}

// Renew makes the database anew, with the engine's tables in it.
func (b *Bed) Renew(ctx context.Context) error {
	if b.Pool != nil {
		b.Pool.Close()
		b.Pool = nil
	}
	if err := b.pg.DropDatabase(ctx, b.name); err != nil {
		return err
	}
	var err error
	if b.URL, err = b.pg.CreateDatabase(ctx, b.name); err != nil {
		return err
	}
	if b.Pool, err = pgxpool.New(ctx, b.URL); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	_, err = migrations.Migrate(ctx, b.Pool, migrations.DefaultSchema)
	return err
}

// Close leaves neither the database nor a server of its own behind, also when
// ctx has ended.
func (b *Bed) Close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if b.Pool != nil {
		b.Pool.Close()
	}
	return errors.Join(b.pg.DropDatabase(ctx, b.name), b.pg.Stop(ctx))
}
