// Command service is a small HTTP service whose orders are durable workflows: an
// endpoint that triggers, one that reads, metrics, probes, traces and a graceful stop.
//
//	TROUPE_DATABASE_URL=postgres://… go run ./examples/service
package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/migrations"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("TROUPE_DATABASE_URL"), ":8080"); err != nil {
		slog.Error("the service has ended", slog.Any("error", err))
		os.Exit(1)
	}
}

// run serves until ctx ends, or the engine does by itself.
func run(ctx context.Context, database, address string) error {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := migrations.Migrate(ctx, pool, migrations.DefaultSchema); err != nil {
		return err
	}
	s, err := newService(pool, migrations.DefaultSchema, os.Stdout)
	if err != nil {
		return err
	}
	if err := s.engine.Start(ctx); err != nil {
		return err
	}
	server := &http.Server{Addr: address, Handler: s.routes(), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err = <-failed:
	case <-s.engine.Done():
		err = s.engine.Err()
	case <-ctx.Done():
	}
	// First no more requests, then no more tasks: what still runs is handed to other pods.
	grace, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return errors.Join(err, server.Shutdown(grace), s.engine.Stop(grace), s.traces.Shutdown(grace)) //nolint:contextcheck // ctx has ended
}
