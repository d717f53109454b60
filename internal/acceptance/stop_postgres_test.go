package acceptance

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// Stop does not wait for a database that does not answer: it takes half a second to
// hand back tasks, and less for the connections.
func TestStopDoesNotWaitForASilentDatabase(t *testing.T) {
	t.Parallel()
	pool, swallows := swallowingPool(t)
	engine := startedOn(t, pool)
	swallows.Store(true)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	require.ErrorIs(t, engine.Stop(ended), context.Canceled)
	pgtest.Within(t, time.Second, time.Since(began), "a stop: 0.8 s, and docs/reliability.md says one:")
	require.NoError(t, engine.Stop(t.Context()))
}
