package sessions

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
)

// A server that has no connection to give is asked now and then, by one call at a
// time, until it has.
func TestAFullServerIsAskedNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, config := &dials{}, &pgxpool.Config{}
		mine := errors.New("the embedder's")
		config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return mine }
		d.prepare(config)
		dial := func() error { return config.BeforeConnect(t.Context(), nil) }
		for range 3 {
			require.ErrorIs(t, dial(), mine, "as many as are wanted")
		}
		d.note(true)
		for range 4 {
			require.ErrorIs(t, dial(), persistence.ErrNoResources)
			none, said := noConnection(dial())
			require.True(t, none)
			require.False(t, said)
			time.Sleep(crowdedTry)
			require.ErrorIs(t, dial(), mine)
			d.note(true)
		}
		require.NoError(t, config.AfterConnect(t.Context(), nil))
		for range 3 {
			require.ErrorIs(t, dial(), mine)
		}
	})
}
