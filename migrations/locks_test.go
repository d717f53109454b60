package migrations

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// A migration that waits for a table lets other sessions pass in between: while a long
// transaction reads a table, no session waits behind the migration for longer than
// lockTimeout.
func TestF46AMigrationThatWaitsBlocksNoOthers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool, err := pgxpool.New(ctx, pgtest.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = Migrate(ctx, pool, DefaultSchema)
	require.NoError(t, err)
	reader, err := pool.Begin(ctx)
	require.NoError(t, err)
	_, err = reader.Exec(ctx, "select from troupe.tasks limit 1")
	require.NoError(t, err)
	migrated := make(chan error, 1)
	go func() {
		migrated <- withSession(ctx, pool, DefaultSchema, func(s *session) error {
			next := s.latest() + 1
			s.migrations = append(s.migrations, migration{next, fmt.Sprintf("%04d_next", next), "alter table {schema}.tasks add column next integer"})
			applied, err := s.apply(ctx)
			if err == nil {
				require.Len(t, applied, 1)
			}
			return err
		})
	}()
	longest := time.Duration(0)
	for began := time.Now(); time.Since(began) < 4*time.Second; {
		at := time.Now()
		_, err := pool.Exec(ctx, "select from troupe.tasks limit 1")
		require.NoError(t, err)
		longest = max(longest, time.Since(at))
	}
	require.Greater(t, longest, 100*time.Millisecond, "the migration waited, and others behind it")
	pgtest.Within(t, time.Second, longest, "the longest wait behind the migration")
	require.NoError(t, reader.Rollback(context.WithoutCancel(ctx)))
	require.NoError(t, <-migrated)
}
