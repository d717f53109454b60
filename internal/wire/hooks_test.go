package wire_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/internal/wire"
)

func TestAHookThatPanicsIsAnErrorOfItsConnection(t *testing.T) {
	t.Parallel()
	requireHooksFail(t, func() { panic("no tunnel") }, "panicked: no tunnel")
}

func TestAHookThatEndsItsGoroutineIsAnErrorOfItsConnection(t *testing.T) {
	t.Parallel()
	requireHooksFail(t, runtime.Goexit, "ended its goroutine")
}

func requireHooksFail(t *testing.T, fail func(), how string) {
	t.Helper()
	url := pgtest.Database(t)
	for name, arm := range map[string]func(c *pgx.ConnConfig){
		"DialFunc": func(c *pgx.ConnConfig) {
			c.DialFunc = func(context.Context, string, string) (net.Conn, error) { fail(); return nil, nil }
		},
		"LookupFunc": func(c *pgx.ConnConfig) {
			c.LookupFunc = func(context.Context, string) ([]string, error) { fail(); return nil, nil }
		},
		"AfterNetConnect": func(c *pgx.ConnConfig) {
			c.AfterNetConnect = func(context.Context, *pgconn.Config, net.Conn) (net.Conn, error) { fail(); return nil, nil }
		},
		"ValidateConnect": func(c *pgx.ConnConfig) {
			c.ValidateConnect = func(context.Context, *pgconn.PgConn) error { fail(); return nil }
		},
		"AfterConnect": func(c *pgx.ConnConfig) {
			c.AfterConnect = func(context.Context, *pgconn.PgConn) error { fail(); return nil }
		},
	} {
		config, err := pgx.ParseConfig(url)
		require.NoError(t, err)
		config.Host = "localhost"
		arm(config)
		wire.ContainHooks(config, nil)
		wire.Prepare(config, nil)
		_, err = pgx.ConnectConfig(t.Context(), config)
		require.ErrorContains(t, err, name+" of the embedder's pool "+how)
	}
	before := wire.ContainBeforeConnect(func(context.Context, *pgx.ConnConfig) error { fail(); return nil }, nil)
	require.ErrorContains(t, before(t.Context(), &pgx.ConnConfig{}), "BeforeConnect of the embedder's pool "+how)
	require.Nil(t, wire.ContainBeforeConnect(nil, nil))
}

// upsetConn panics in one of its methods, once it is told to.
type upsetConn struct {
	net.Conn
	in *atomic.Value
}

func (c upsetConn) may(method string) {
	if c.in.Load() == method {
		panic("no tunnel")
	}
}

func (c upsetConn) Read(p []byte) (int, error)  { c.may("Read"); return c.Conn.Read(p) }
func (c upsetConn) Write(p []byte) (int, error) { c.may("Write"); return c.Conn.Write(p) }
func (c upsetConn) RemoteAddr() net.Addr        { panic("no address") }
func (c upsetConn) LocalAddr() net.Addr         { panic("no address") }
func (c upsetConn) Close() error                { c.may("Close"); return c.Conn.Close() }
func (c upsetConn) SetDeadline(at time.Time) error {
	c.may("SetDeadline")
	return c.Conn.SetDeadline(at)
}

func (c upsetConn) SetReadDeadline(at time.Time) error {
	c.may("SetReadDeadline")
	return c.Conn.SetReadDeadline(at)
}

func (c upsetConn) SetWriteDeadline(at time.Time) error {
	c.may("SetWriteDeadline")
	return c.Conn.SetWriteDeadline(at)
}

func TestAConnectionThatPanicsIsAnErrorOfItsCalls(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	for _, method := range []string{"Read", "Write", "Close", "SetDeadline", "SetReadDeadline", "SetWriteDeadline"} {
		config, err := pgx.ParseConfig(url)
		require.NoError(t, err)
		var in atomic.Value
		dial := config.DialFunc
		config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return upsetConn{conn, &in}, err
		}
		wire.ContainHooks(config, nil)
		wire.Prepare(config, nil)
		conn, err := pgx.ConnectConfig(t.Context(), config)
		require.NoError(t, err)
		in.Store(method)
		own := conn.PgConn().Conn()
		for name, set := range map[string]func(time.Time) error{
			"SetDeadline": own.SetDeadline, "SetReadDeadline": own.SetReadDeadline, "SetWriteDeadline": own.SetWriteDeadline,
		} {
			if err := set(time.Time{}); name == method {
				require.ErrorContains(t, err, "the connection of DialFunc of the embedder's pool panicked: no tunnel")
			} else {
				require.NoError(t, err)
			}
		}
		require.NotNil(t, own.RemoteAddr())
		require.NotNil(t, own.LocalAddr())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err = conn.Exec(ctx, "select 1")
		if method == "Read" || method == "Write" {
			require.Error(t, err)
		}
		_ = conn.Close(ctx)
		cancel()
	}
}

func TestWhatIsCalledWhileMessagesAreReadMayPanic(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig(pgtest.Database(t))
	require.NoError(t, err)
	var log bytes.Buffer
	config.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) { panic("no notice") }
	config.OnPgError = func(*pgconn.PgConn, *pgconn.PgError) bool { panic("no error") }
	config.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) { panic("not theirs to hear") }
	wire.ContainHooks(config, slog.New(slog.NewTextHandler(&log, nil)))
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "do $$ begin raise notice 'x'; end $$; listen a; notify a, 'b'")
	require.NoError(t, err)
	heard, err := conn.WaitForNotification(t.Context())
	require.NoError(t, err)
	require.Equal(t, "b", heard.Payload)
	_, err = conn.Exec(t.Context(), "select 1/0")
	require.ErrorContains(t, err, "division by zero")
	require.False(t, conn.IsClosed())
	require.Contains(t, log.String(), "hook=OnNotice reason=\"it panicked: no notice\"")
}

// tunnel is a connection that keeps no deadlines. One that is cut waits for the other side
// to agree before it is closed, so that its reads go on.
type tunnel struct {
	net.Conn
	cut bool
}

var errNoDeadline = errors.New("deadline not supported")

func (tunnel) SetDeadline(time.Time) error      { return errNoDeadline }
func (tunnel) SetReadDeadline(time.Time) error  { return errNoDeadline }
func (tunnel) SetWriteDeadline(time.Time) error { return errNoDeadline }

func (c tunnel) Close() error {
	if c.cut {
		return nil
	}
	return c.Conn.Close()
}

// A statement on a connection without deadlines ends with its context all the same, and
// such a connection works.
func TestAConnectionThatKeepsNoDeadlinesIsClosedInstead(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	for _, cut := range []bool{false, true} {
		config, err := pgx.ParseConfig(url)
		require.NoError(t, err)
		dial := config.DialFunc
		var below net.Conn
		config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			below = conn
			return tunnel{conn, cut}, err
		}
		wire.ContainHooks(config, nil)
		wire.Prepare(config, nil)
		conn, err := pgx.ConnectConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(func() { _ = below.Close() })
		for _, length := range []int{1, 100_000, 1_000_000} { // more than one read brings
			var got string
			require.NoError(t, conn.QueryRow(t.Context(), "select repeat('x', $1)", length).Scan(&got))
			require.Len(t, got, length)
			require.NoError(t, conn.QueryRow(t.Context(), "select $1::text", got).Scan(&got))
			require.Len(t, got, length)
		}
		limited, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		began := time.Now()
		_, err = conn.Exec(limited, "select pg_sleep(60)")
		cancel()
		require.Error(t, err)
		pgtest.Within(t, 30*time.Second, time.Since(began), "a statement whose context ended")
		select {
		case <-conn.PgConn().CleanupDone():
		case <-time.After(30 * time.Second):
			t.Fatal("something of the connection goes on")
		}
	}
}
