package wire

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/troupe-dev/troupe/internal/panics"
)

// BeforeConnect is a hook of a pool that changes how it connects.
type BeforeConnect = func(ctx context.Context, config *pgx.ConnConfig) error

// ContainBeforeConnect returns a hook whose panic is an error of the connection attempt.
// Pools call the hook on goroutines of their own, where a panic ends the process. The hooks
// that it sets are contained as by ContainHooks. nil stays nil.
func ContainBeforeConnect(hook BeforeConnect) BeforeConnect {
	if hook == nil {
		return nil
	}
	return func(ctx context.Context, config *pgx.ConnConfig) error {
		if err := contain("BeforeConnect", func() error { return hook(ctx, config) }); err != nil {
			return err
		}
		ContainHooks(config)
		return nil
	}
}

// ContainHooks contains the hooks of config that are called while a connection is made: a
// panic in one is an error of that connection. OnNotification is removed, because
// notifications of these connections are for the engine only. Callbacks of the TLS
// configuration, tracers and OnNotice stay as they are.
func ContainHooks(config *pgx.ConnConfig) {
	config.OnNotification = nil
	if dial := config.DialFunc; dial != nil {
		config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := containResult("DialFunc", func() (net.Conn, error) { return dial(ctx, network, address) })
			if err == nil && conn == nil {
				err = errors.New("DialFunc of the embedder's pool returned no connection")
			}
			return conn, err
		}
	}
	if lookup := config.LookupFunc; lookup != nil {
		config.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
			return containResult("LookupFunc", func() ([]string, error) { return lookup(ctx, host) })
		}
	}
	if after := config.AfterNetConnect; after != nil {
		config.AfterNetConnect = func(ctx context.Context, c *pgconn.Config, conn net.Conn) (net.Conn, error) {
			out, err := containResult("AfterNetConnect", func() (net.Conn, error) { return after(ctx, c, conn) })
			if out == nil {
				out = conn // pgx closes it after an error
			}
			return out, err
		}
	}
	config.ValidateConnect = containCheck("ValidateConnect", config.ValidateConnect)
	config.AfterConnect = pgconn.AfterConnectFunc(containCheck("AfterConnect", pgconn.ValidateConnectFunc(config.AfterConnect)))
	if token := config.OAuthTokenProvider; token != nil {
		config.OAuthTokenProvider = func(ctx context.Context) (string, error) {
			return containResult("OAuthTokenProvider", func() (string, error) { return token(ctx) })
		}
	}
}

func containCheck(hook string, check pgconn.ValidateConnectFunc) pgconn.ValidateConnectFunc {
	if check == nil {
		return nil
	}
	return func(ctx context.Context, conn *pgconn.PgConn) error {
		return contain(hook, func() error { return check(ctx, conn) })
	}
}

// containResult is contain for a hook that returns a value.
func containResult[T any](hook string, f func() (T, error)) (result T, err error) {
	err = contain(hook, func() (err error) {
		result, err = f()
		return err
	})
	return result, err
}

// contain calls a hook on a goroutine of its own and turns a panic, or a runtime.Goexit,
// into an error. A pool loses the slot of a connection whose goroutine ends while the
// connection is made.
func contain(hook string, f func() error) error {
	ended := make(chan error, 1)
	go func() {
		err := fmt.Errorf("%s of the embedder's pool ended its goroutine (runtime.Goexit), as a test's FailNow does", hook)
		defer func() { ended <- err }()
		defer func() {
			if reason := recover(); reason != nil {
				err = fmt.Errorf("%s of the embedder's pool panicked: %s", hook, panics.Text(reason))
			}
		}()
		err = f()
	}()
	return <-ended
}
