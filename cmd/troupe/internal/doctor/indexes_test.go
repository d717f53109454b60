package doctor

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
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
