package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
)

// A pod must not lose its lease because everything else it does keeps the pool
// busy: readers in their hundreds, a flood of cancels.
func TestRenewalsDoNotQueueForConnections(t *testing.T) {
	t.Parallel()
	d := openDatabase(t, Options{PoolSize: 3})
	pod, _, err := d.store.JoinPod(t.Context(), persistence.PodInfo{Name: "p", TTL: time.Minute})
	require.NoError(t, err)
	for range 3 {
		conn, err := d.store.Pool().Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	renewed, err := d.store.RenewPod(ctx, persistence.Renewal{Pod: pod, TTL: time.Minute})
	require.NoError(t, err)
	require.Equal(t, 1, renewed.Pods)
}
