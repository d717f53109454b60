package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/troupe-dev/troupe/internal/panics"
)

// BeforeConnect is a hook of a pool that changes how it connects.
type BeforeConnect = func(ctx context.Context, config *pgx.ConnConfig) error

// ContainBeforeConnect returns a hook whose panic is an error of the connection that was
// to be made: pools call it on goroutines of their own, where a panic ends the process.
// What it sets is contained as ContainHooks does. nil stays nil.
func ContainBeforeConnect(hook BeforeConnect, log *slog.Logger) BeforeConnect {
	if hook == nil {
		return nil
	}
	return func(ctx context.Context, config *pgx.ConnConfig) error {
		if err := apart("BeforeConnect", func() error { return hook(ctx, config) }); err != nil {
			return err
		}
		if _, done := config.Tracer.(*containedTracer); !done {
			config.Tracer = Contain(config.Tracer, log)
		}
		ContainHooks(config, log)
		return nil
	}
}

// apart calls a hook on a goroutine of its own, which it may end: pools never get back the
// place of a connection whose goroutine ended while it was made.
func apart(hook string, f func() error) error {
	ended := make(chan error, 1)
	go func() {
		err := fmt.Errorf("%s of the embedder's pool ended its goroutine (runtime.Goexit), as a test's FailNow does", hook)
		defer func() { ended <- err }()
		defer contain(hook, &err)
		err = f()
	}()
	return <-ended
}

// contain turns a panic of a hook into an error. It is deferred.
func contain(hook string, err *error) {
	if reason := recover(); reason != nil {
		*err = fmt.Errorf("%s of the embedder's pool panicked: %s", hook, panics.Text(reason))
	}
}

// ContainHooks changes the functions of config that are the embedder's: a panic in one is
// an error of the connection that it is called for, as connections are made and read on
// goroutines that nobody of the embedder's watches. Notifications are the engine's own to
// hear, so OnNotification is not kept. What has no error to return is logged once for each
// hook of config; log may be nil.
func ContainHooks(config *pgx.ConnConfig, log *slog.Logger) {
	h := hooks{log: log, told: &sync.Map{}}
	config.OnNotification = nil
	config.DialFunc = h.dial(config.DialFunc)
	config.TLSConfig = h.tls(config.TLSConfig)
	for i, f := range config.Fallbacks {
		other := *f
		other.TLSConfig = h.tls(f.TLSConfig)
		config.Fallbacks[i] = &other
	}
	if lookup := config.LookupFunc; lookup != nil {
		config.LookupFunc = func(ctx context.Context, host string) (addresses []string, err error) {
			err = apart("LookupFunc", func() (err error) {
				addresses, err = lookup(ctx, host)
				return err
			})
			return addresses, err
		}
	}
	if after := config.AfterNetConnect; after != nil {
		config.AfterNetConnect = func(ctx context.Context, c *pgconn.Config, conn net.Conn) (out net.Conn, err error) {
			defer func() {
				if out == nil {
					out = conn // which pgx closes after an error
				}
			}()
			own := conn // of the embedder's
			if contained, is := conn.(*containedConn); is {
				own = contained.Conn
			}
			err = apart("AfterNetConnect", func() (err error) {
				out, err = after(ctx, c, own)
				return err
			})
			if out != nil {
				out = h.ending(out)
			}
			return out, err
		}
	}
	config.ValidateConnect = h.checked("ValidateConnect", config.ValidateConnect)
	config.AfterConnect = pgconn.AfterConnectFunc(h.checked("AfterConnect", pgconn.ValidateConnectFunc(config.AfterConnect)))
	if token := config.OAuthTokenProvider; token != nil {
		config.OAuthTokenProvider = func(ctx context.Context) (text string, err error) {
			err = apart("OAuthTokenProvider", func() (err error) {
				text, err = token(ctx)
				return err
			})
			return text, err
		}
	}
	h.callbacks(config)
}

type hooks struct {
	log  *slog.Logger
	told *sync.Map // names of hooks
}

func (h hooks) checked(name string, check pgconn.ValidateConnectFunc) pgconn.ValidateConnectFunc {
	if check == nil {
		return nil
	}
	return func(ctx context.Context, conn *pgconn.PgConn) error {
		return apart(name, func() error { return check(ctx, conn) })
	}
}

// dial also ends connections that keep no deadlines.
func (h hooks) dial(dial pgconn.DialFunc) pgconn.DialFunc {
	if dial == nil {
		return nil
	}
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = apart("DialFunc", func() (err error) {
			conn, err = dial(ctx, network, address)
			return err
		})
		switch {
		case err != nil:
			return nil, err
		case conn == nil:
			return nil, errors.New("DialFunc of the embedder's pool returned no connection")
		}
		return h.ending(conn), nil
	}
}

// ending returns a connection whose reads end, and whose methods do not panic.
func (hooks) ending(conn net.Conn) net.Conn {
	if conn = containConn(conn); conn.SetDeadline(time.Time{}) == nil {
		return conn
	}
	return endDeadlines(conn)
}

// callbacks contains what is called while messages of the server are read.
func (h hooks) callbacks(config *pgx.ConnConfig) {
	if notice := config.OnNotice; notice != nil {
		config.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
			defer h.tell("OnNotice")
			notice(conn, n)
		}
	}
	if refused := config.OnPgError; refused != nil {
		config.OnPgError = func(conn *pgconn.PgConn, e *pgconn.PgError) (goesOn bool) {
			panicked := true
			defer func() {
				if panicked { // as pgx has it by itself
					goesOn = e.Severity != "FATAL" && e.SeverityUnlocalized != "FATAL"
				}
			}()
			defer h.tell("OnPgError")
			goesOn = refused(conn, e)
			panicked = false
			return goesOn
		}
	}
	if build := config.BuildFrontend; build != nil {
		config.BuildFrontend = func(r io.Reader, w io.Writer) (front *pgproto3.Frontend) {
			defer func() {
				if front == nil {
					front = pgproto3.NewFrontend(r, w)
				}
			}()
			defer h.tell("BuildFrontend")
			return build(r, w)
		}
	}
	if build := config.BuildContextWatcherHandler; build != nil {
		config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) (handler ctxwatch.Handler) {
			defer func() {
				if handler == nil {
					handler = &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}
				}
			}()
			defer h.tell("BuildContextWatcherHandler")
			if built := build(conn); built != nil {
				handler = &watchedContext{handler: built, hooks: h}
			}
			return handler
		}
	}
}

// watchedContext contains a handler of ends of contexts, which is called on a goroutine of
// package context.
type watchedContext struct {
	handler ctxwatch.Handler
	hooks   hooks
}

// HandleCancel implements ctxwatch.Handler.
func (w *watchedContext) HandleCancel(canceled context.Context) {
	defer w.hooks.tell("BuildContextWatcherHandler")
	w.handler.HandleCancel(canceled)
}

// HandleUnwatchAfterCancel implements ctxwatch.Handler.
func (w *watchedContext) HandleUnwatchAfterCancel() {
	defer w.hooks.tell("BuildContextWatcherHandler")
	w.handler.HandleUnwatchAfterCancel()
}

// tell ends a panic that nobody can be given as an error. It is deferred.
func (h hooks) tell(hook string) {
	if reason := recover(); reason != nil {
		h.once(hook, "it panicked: "+panics.Text(reason))
	}
}

// apart calls a hook on a goroutine of its own. Nobody can be given what goes wrong.
func (h hooks) apart(hook string, f func()) {
	if err := apart(hook, func() error { f(); return nil }); err != nil {
		h.once(hook, err.Error())
	}
}

func (h hooks) once(hook, reason string) {
	if h.log == nil {
		return
	}
	if _, told := h.told.LoadOrStore(hook, true); !told {
		h.log.Error("a hook of the embedder's pool failed", slog.String("hook", hook), slog.String("reason", reason))
	}
}
