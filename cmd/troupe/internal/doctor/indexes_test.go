package doctor

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// Nothing that migrations make is missing from the list.
func TestTheIndexesAreThoseOfTheMigrations(t *testing.T) {
	c := open(t, migrated(t))
	rows, err := c.pool.Query(t.Context(), indexesThere, "troupe")
	require.NoError(t, err)
	there, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (i index, err error) {
		return i, row.Scan(&i.table, &i.columns, (*string)(&i.kind))
	})
	require.NoError(t, err)
	require.Equal(t, there, indexes())
}

// migrated returns the address of a new database with the tables in it.
func migrated(t *testing.T) string {
	t.Helper()
	return pgtest.Copy(t, "migrated", func(ctx context.Context, url string) error {
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return err
		}
		defer pool.Close()
		_, err = migrations.Migrate(ctx, pool, migrations.DefaultSchema)
		return err
	})
}
