package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev"
	"github.com/troupe-dev/troupe/migrations"
)

// lab is where measurements are made: a server, and on it a database that is
// made anew for each repetition.
type lab struct {
	options Options
	pg      *pgdev.Server
	host    Host
	server  Server
	name    string        // of the database
	pool    *pgxpool.Pool // of the measurer
	url     string
}

// privateSettings are those of a server with some memory. Everything that
// makes commits durable stays on.
func privateSettings() map[string]string {
	return map[string]string{"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "15min"}
}

func openLab(ctx context.Context, o Options) (*lab, error) {
	server, err := startServer(ctx, o.DatabaseURL)
	if err != nil {
		return nil, err
	}
	l := &lab{options: o, pg: server, host: thisHost(), name: fmt.Sprintf("troupe_bench_%d", os.Getpid())}
	if err := l.renew(ctx); err != nil {
		return nil, errors.Join(err, l.close(ctx))
	}
	if l.server, err = readServer(ctx, l.pool, !server.Foreign()); err != nil {
		return nil, errors.Join(err, l.close(ctx))
	}
	return l, nil
}

func startServer(ctx context.Context, url string) (*pgdev.Server, error) {
	if url != "" {
		return pgdev.Attach(ctx, url)
	}
	return pgdev.Start(ctx, pgdev.Options{Private: true, Download: true, Settings: privateSettings()})
}

// renew makes the database anew, with the engine's tables in it.
func (l *lab) renew(ctx context.Context) error {
	if l.pool != nil {
		l.pool.Close()
		l.pool = nil
	}
	if err := l.pg.DropDatabase(ctx, l.name); err != nil {
		return err
	}
	var err error
	if l.url, err = l.pg.CreateDatabase(ctx, l.name); err != nil {
		return err
	}
	if l.pool, err = pgxpool.New(ctx, l.url); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	_, err = migrations.Migrate(ctx, l.pool, migrations.DefaultSchema)
	return err
}

func (l *lab) close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if l.pool != nil {
		l.pool.Close()
	}
	return errors.Join(l.pg.DropDatabase(ctx, l.name), l.pg.Stop(ctx))
}

// stopGrace bounds the stop of a pod, which has nothing left to do then.
const stopGrace = 10 * time.Second

// onPod runs a workflow on a pod of its own while use lasts.
func onPod[I, O any](
	ctx context.Context, l *lab, config troupe.Config, w *troupe.Workflow[I, O], use func(*troupe.Handle[I, O]) error,
) (err error) {
	config.Schema = migrations.DefaultSchema
	engine, err := troupe.New(l.pool, config)
	if err != nil {
		return err
	}
	handle, err := troupe.Register(engine, w)
	if err != nil {
		return err
	}
	if err := engine.Start(ctx); err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		err = errors.Join(err, engine.Stop(stop))
	}()
	return use(handle)
}
