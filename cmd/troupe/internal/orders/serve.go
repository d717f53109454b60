package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe"
	example "github.com/troupe-dev/troupe/examples/orders"
)

// PoolMax is how many connections the embedder's own pool of a pod needs at
// most: none of its steps writes to the database. The engine has its own.
const PoolMax = 4

// Limits of the HTTP port: none of its answers takes long.
const (
	headerMax    = 16 << 10
	closeTimeout = 5 * time.Second
)

// patience is how long the HTTP port waits for a client.
type patience struct {
	read  time.Duration // until a request is there, headers and body
	write time.Duration // until its answer has gone
	idle  time.Duration // until the next request of a connection
}

func usual() patience {
	return patience{read: 5 * time.Second, write: 15 * time.Second, idle: time.Minute}
}

// server returns one that no client can hold up.
func server(handler http.Handler, p patience) *http.Server {
	return &http.Server{
		Handler:     handler,
		ReadTimeout: p.read, WriteTimeout: p.write, IdleTimeout: p.idle, MaxHeaderBytes: headerMax,
	}
}

// CheckListen says why an address is none to listen on. It opens nothing.
func CheckListen(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil && port == "" {
		err = errors.New("the port is missing")
	}
	if err == nil {
		_, err = net.LookupPort("tcp", port) //nolint:noctx // of a file at most
	}
	if err == nil && strings.IndexFunc(host, unfit) >= 0 {
		err = errors.New("the host is none")
	}
	if err != nil {
		return fmt.Errorf("--listen is %q: use the form :8080 or 127.0.0.1:8080, with a port from 0 to 65535", address)
	}
	return nil
}

// unfit reports whether a rune can be neither in a name nor in an address.
func unfit(r rune) bool {
	return r != '.' && r != '-' && r != '_' && r != ':' && r != '%' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

// Serve is a pod until the context ends, and then stops in good order: the
// engine hands back what does not finish within config.StopGrace, while probes
// and orders are still answered. An engine that ends by itself is an error.
func Serve(ctx context.Context, pool *pgxpool.Pool, config troupe.Config, listen string) error {
	engine, err := troupe.New(pool, config)
	if err != nil {
		return err
	}
	handle, err := troupe.Register(engine, example.Workflow(clerk{config.Logger}))
	if err != nil {
		return err
	}
	port, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("open the HTTP port: %w", err)
	}
	server := server(Handler(engine, handle), usual())
	served := make(chan error, 1)
	go func() { served <- server.Serve(port) }()
	config.Logger.InfoContext(ctx, "the HTTP port is open", slog.String("address", port.Addr().String()))
	err = work(ctx, engine, served)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return errors.Join(err, server.Shutdown(closing))
}

// work starts the engine and stops it when the context ends.
func work(ctx context.Context, engine *troupe.Engine, served <-chan error) error {
	if err := engine.Start(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return engine.Stop(context.WithoutCancel(ctx))
	case <-engine.Done():
		return errors.Join(engine.Err(), engine.Stop(context.WithoutCancel(ctx)))
	case err := <-served:
		return errors.Join(fmt.Errorf("the HTTP port was closed: %w", err), engine.Stop(context.WithoutCancel(ctx)))
	}
}
