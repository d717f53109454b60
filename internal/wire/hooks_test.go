package wire_test

import (
	"context"
	"net"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/internal/wire"
)

func TestHookThatPanicsFailsItsConnection(t *testing.T) {
	t.Parallel()
	requireHooksFail(t, func() { panic("no tunnel") }, "panicked: no tunnel")
}

func TestHookThatEndsItsGoroutineFailsItsConnection(t *testing.T) {
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
		wire.ContainHooks(config)
		wire.Prepare(config, nil)
		_, err = pgx.ConnectConfig(t.Context(), config)
		require.ErrorContains(t, err, name+" of the embedder's pool "+how)
	}
	before := wire.ContainBeforeConnect(func(context.Context, *pgx.ConnConfig) error { fail(); return nil })
	require.ErrorContains(t, before(t.Context(), &pgx.ConnConfig{}), "BeforeConnect of the embedder's pool "+how)
	require.Nil(t, wire.ContainBeforeConnect(nil))
}

// An OnNotification handler of the embedder's would keep notifications from the engine.
func TestOnNotificationIsRemoved(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig(pgtest.Database(t))
	require.NoError(t, err)
	config.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	wire.ContainHooks(config)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	_, err = conn.Exec(t.Context(), "listen a; notify a, 'b'")
	require.NoError(t, err)
	heard, err := conn.WaitForNotification(t.Context())
	require.NoError(t, err)
	require.Equal(t, "b", heard.Payload)
}
