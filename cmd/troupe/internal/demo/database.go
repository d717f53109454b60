package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/internal/pgdev"
	"github.com/troupe-dev/troupe/migrations"
)

// database is the demo's own database, on a server that it started or that
// TROUPE_DATABASE_URL names.
type database struct {
	server  *pgdev.Server
	name    string
	url     string
	version string // of PostgreSQL
	keep    bool   // when it is closed
	pool    *pgxpool.Pool
}

// openDatabase makes it on the server at the address; an empty one starts a
// server.
func openDatabase(ctx context.Context, address string) (*database, error) {
	server, err := startServer(ctx, address)
	if err != nil {
		return nil, err
	}
	d := &database{server: server, name: "troupe_demo"}
	if server.Foreign() {
		d.name = fmt.Sprintf("troupe_demo_%d", os.Getpid()) // others may use the server for a demo as well
	}
	if err := d.create(ctx); err != nil {
		return nil, errors.Join(err, d.close(ctx))
	}
	return d, nil
}

// startServer keeps its data in the cache folder. If that cannot be used, be
// it that another demo runs or that another major version made it, a temporary
// folder does.
func startServer(ctx context.Context, address string) (*pgdev.Server, error) {
	if address != "" {
		return pgdev.Attach(ctx, address)
	}
	kept := pgdev.Options{Dir: filepath.Join(pgdev.CacheDir(), "demo"), Download: true, Private: true}
	server, err := pgdev.Start(ctx, kept)
	if err == nil || ctx.Err() != nil || errors.Is(err, pgdev.ErrNoServer) {
		return server, err
	}
	server, second := pgdev.Start(ctx, pgdev.Options{Download: true, Private: true})
	if second != nil {
		return nil, errors.Join(err, second)
	}
	return server, nil
}

func (d *database) create(ctx context.Context) error {
	if err := d.server.DropDatabase(ctx, d.name); err != nil {
		return err
	}
	var err error
	if d.url, err = d.server.CreateDatabase(ctx, d.name); err != nil {
		return err
	}
	if d.pool, err = pgxpool.New(ctx, d.url); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if err := d.pool.QueryRow(ctx, "select split_part(current_setting('server_version'), ' ', 1)").Scan(&d.version); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	_, err = migrations.Migrate(ctx, d.pool, migrations.DefaultSchema)
	return err
}

// close leaves nothing behind: neither the database, unless it is kept, nor the server.
func (d *database) close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if d.pool != nil {
		d.pool.Close()
	}
	if d.keep {
		return d.server.Stop(ctx)
	}
	return errors.Join(d.server.DropDatabase(ctx, d.name), d.server.Stop(ctx))
}
