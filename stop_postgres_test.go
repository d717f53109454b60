package troupe_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// A database that does not answer holds up nobody who stops: five seconds for what
// is handed back, two for the connections.
func TestStopDoesNotWaitForASilentDatabase(t *testing.T) {
	t.Parallel()
	pool, swallows := swallowingPool(t)
	engine := startedOn(t, pool)
	swallows.Store(true)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	require.ErrorIs(t, engine.Stop(ended), context.Canceled)
	pgtest.Within(t, 9*time.Second, time.Since(began), "a stop: seven seconds, and docs/reliability.md says eight:")
	require.NoError(t, engine.Stop(t.Context()))
}
