package acceptance

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// A hook of the embedder's pool that panics while the pool, the listener, the stream or
// the leader connects again ends nothing. Runs continue once the hook returns. The
// embedder's handler of notifications gets none of the engine's.
func TestHooksOfThePoolThatPanicEndNothing(t *testing.T) {
	t.Parallel()
	var armed atomic.Bool
	var panicked atomic.Int64
	config, err := pgxpool.ParseConfig(pgtest.Database(t))
	require.NoError(t, err)
	config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
		if armed.Load() {
			panicked.Add(1)
			panic("no secret")
		}
		return nil
	}
	config.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	migrate(t, pool)
	engine, err := troupe.New(pool, troupe.Config{})
	require.NoError(t, err)
	handle, err := troupe.Register(engine, single(func(context.Context, string) (int, error) { return 1, nil }))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { _ = engine.Stop(context.Background()) })
	_, err = handle.Run(t.Context(), "before")
	require.NoError(t, err)

	admin, err := pgx.Connect(t.Context(), pool.Config().ConnString())
	require.NoError(t, err)
	defer func() { _ = admin.Close(context.Background()) }()
	armed.Store(true)
	_, err = admin.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity
		where datname = current_database() and application_name like 'troupe%'`)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return panicked.Load() >= 5 }, time.Minute, 10*time.Millisecond)
	armed.Store(false)
	_, err = handle.Run(t.Context(), "after")
	require.NoError(t, err)
	require.NoError(t, engine.Err())
}
