package wire_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/internal/wire"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func prepared(t *testing.T, url string) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	wire.Prepare(config, wire.NewLineage())
	return config
}

func TestAServerThatIsOnlyReadFromIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	config := prepared(t, url)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	config.RuntimeParams["default_transaction_read_only"] = "on"
	_, err = pgx.ConnectConfig(t.Context(), config)
	require.ErrorContains(t, err, "read only")
	replication := prepared(t, url)
	replication.RuntimeParams["replication"] = "database"
	conn, err = pgx.ConnectConfig(t.Context(), replication)
	require.NoError(t, err, "a connection for replication is asked, too")
	require.NoError(t, conn.Close(t.Context()))
}

func TestAServerThatSaysNothingIsGivenUp(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // its backlog takes the connection, without an answer
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	config := prepared(t, "postgres://u@"+listener.Addr().String()+"/d?sslmode=disable")
	require.Equal(t, wire.ConnectTimeout, config.ConnectTimeout)
	config.ConnectTimeout = 100 * time.Millisecond
	_, err = pgx.ConnectConfig(context.Background(), config)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestTheDialerOfTheAddressStays(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig("postgres://u@127.0.0.1:1/d?sslmode=disable&connect_timeout=7")
	require.NoError(t, err)
	mine := errors.New("mine")
	config.DialFunc = func(context.Context, string, string) (net.Conn, error) { return nil, mine }
	wire.Prepare(config, nil)
	require.Equal(t, 7*time.Second, config.ConnectTimeout)
	_, err = pgx.ConnectConfig(t.Context(), config)
	require.ErrorIs(t, err, mine)
}

// An address that prefers standbys gets the primary.
func TestATasteForStandbysDoesNotCount(t *testing.T) {
	t.Parallel()
	config := prepared(t, pgtest.Database(t)+"&target_session_attrs=prefer-standby")
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	config.RuntimeParams["default_transaction_read_only"] = "on"
	_, err = pgx.ConnectConfig(t.Context(), config)
	require.ErrorContains(t, err, "takes no writes")
}
