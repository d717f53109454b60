package postgres

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// schemas returns a function that opens schema after schema of one database:
// making one takes a tenth of the time of making a database.
func schemas(t *testing.T) func(t *testing.T) *database {
	t.Helper()
	url := pgtest.Database(t)
	var count atomic.Int64
	return func(t *testing.T) *database {
		t.Helper()
		config, err := pgxpool.ParseConfig(url)
		require.NoError(t, err)
		config.MaxConns = 3
		user, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(user.Close)
		return openSchema(t, user, Options{Schema: fmt.Sprintf("s%d", count.Add(1)), PoolSize: 3})
	}
}

// TestContract holds the store to what every store promises.
func TestContract(t *testing.T) {
	open := schemas(t)
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		t.Helper()
		return open(t).harness()
	})
}
