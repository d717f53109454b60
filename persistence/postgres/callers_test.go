package postgres

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// Hundreds of callers that wait for a lock do not keep the engine from its own work; a
// read of a single run does not wait for reads of pages.
func TestCallersLeaveRoomForTheEngine(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k := newFixture(openDatabase(t, Options{PoolSize: 6}), g)
	pod := k.join(time.Hour)
	k.start(g, "a", 1) // a tenant that is known, and statements that are prepared
	k.complete(pod, k.claim(pod, 1)...)

	release := k.hold(`lock table {schema}.spans in access exclusive mode`)
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() {
			for ctx.Err() == nil {
				_, err := k.store.ListRuns(ctx, persistence.RunFilter{})
				require.Error(t, err, "the lock was held for less than the test")
			}
		})
	}
	require.Eventually(t, func() bool {
		return value[int](k.database, `select count(*) from pg_locks where not granted`) == 2
	}, 30*time.Second, 10*time.Millisecond, "as many wait as may")
	within(t, 10*time.Second, func() {
		for range 10 {
			k.start(g, "a", 3)
			k.complete(pod, k.claim(pod, 3)...)
		}
	})
	_, leave, err := k.store.Caller(t.Context())
	require.NoError(t, err, "there is a slot left for what is small")
	leave()
	stop()
	release()
	callers.Wait()
	for _, take := range []func(context.Context) (context.Context, func(), error){k.store.LargeCaller, k.store.LargeCaller, k.store.Caller} {
		_, leave, err := take(t.Context())
		require.NoError(t, err, "all slots are free again")
		defer leave()
	}
}

// A caller that finds no connection in time gets an error that says why.
func TestACallerThatFindsNoSlotIsTold(t *testing.T) {
	t.Parallel()
	d := openDatabase(t, Options{PoolSize: 3})
	_, leave, err := d.store.Caller(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = d.store.Run(ctx, "", workflow.RunID{1})
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "were under way")
	_, err = d.store.PurgeDeadLetters(t.Context(), persistence.DeadFilter{})
	require.NoError(t, err, "the housekeeper has pods to look after")
	leave()
	_, err = d.store.Run(t.Context(), "", workflow.RunID{1})
	require.ErrorIs(t, err, persistence.ErrRunNotFound)
}
