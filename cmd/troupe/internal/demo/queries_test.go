package demo

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The queries name tables and columns of the migrations.
func TestQueriesFitTheSchema(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
	require.NoError(t, err)
	defer pool.Close()
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)

	w := &watcher{pool: pool, names: map[int64]string{}}
	seen, err := w.look(t.Context())
	require.NoError(t, err)
	require.Zero(t, seen.runsEnded())
	require.Empty(t, seen.busiest())
	at, err := w.now(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, time.Minute)

	found, err := takeAudit(t.Context(), w, nil, []string{"acknowledged"}, at)
	require.NoError(t, err)
	require.Equal(t, 1, found.lost(), "a run that was acknowledged and is not there")
	require.Nil(t, found.taken)
}
