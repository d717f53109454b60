package sessions

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// Who stops waits for no answer; who has waited for long leaves the question to itself,
// since giving it up costs the connection.
func TestAQuestionEndsWhereItIsCanceled(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // never accepts
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	config, err := pgxpool.ParseConfig("postgres://u@" + silent.Addr().String() + "/db?sslmode=disable&connect_timeout=5")
	require.NoError(t, err)
	ask := func(ctx context.Context) (time.Duration, error) {
		line, err := openLine(ctx, config.Copy())
		require.NoError(t, err)
		t.Cleanup(line.Close)
		begun := time.Now()
		err = line.Ping(ctx)
		return time.Since(begun), err
	}
	canceled, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(50*time.Millisecond, cancel).Stop()
	took, err := ask(canceled)
	require.ErrorIs(t, err, context.Canceled)
	pgtest.Within(t, pingMax, took, "a question that is canceled")

	ended, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	took, err = ask(ended)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.GreaterOrEqual(t, took, pingMax)
}
