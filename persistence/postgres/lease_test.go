package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
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

// TestRenewalKeepsAClaimThatGrows sends a record again, with more to report,
// while a renewal is under way that has found nothing held of its claim: the
// child that is granted under the claim must be found again.
func TestRenewalKeepsAClaimThatGrows(t *testing.T) {
	t.Parallel()
	g := storetest.Chain(2)
	k := newKit(schemas(t)(t), g)
	k.start(g, "a", 2)
	pod := k.join(time.Hour)
	roots := k.claim(pod, 2)
	record := k.completion(pod, roots[0])
	record.InlineLimit, record.InlineHandlers, record.InlineQueues = 5, k.handlers, []string{defaultQueue}
	out, err := k.store.RecordTransitions(k.ctx, record)
	require.NoError(t, err)
	require.Len(t, out.Grants, 1)
	k.complete(pod, out.Grants...)

	release := k.hold(`select from {schema}.pods for no key update`)
	renewed := make(chan error, 1)
	go func() {
		_, err := k.store.RenewPod(k.ctx, persistence.Renewal{Pod: pod, TTL: time.Hour})
		renewed <- err
	}()
	require.Eventually(t, func() bool {
		return value[int](k.database, `select count(*) from pg_locks where not granted`) > 0
	}, 5*time.Second, 10*time.Millisecond, "the renewal waits")
	record.Transitions = append(record.Transitions, k.completion(pod, roots[1]).Transitions...)
	out, err = k.store.RecordTransitions(k.ctx, record)
	require.NoError(t, err)
	require.Len(t, out.Grants, 1)
	k.requireSound()
	release()
	require.NoError(t, <-renewed)
	k.requireSound()

	k.complete(pod, out.Grants...)
	_, err = k.store.RenewPod(k.ctx, persistence.Renewal{Pod: pod, TTL: time.Hour})
	require.NoError(t, err)
	require.Zero(t, value[int](k.database, `select count(*) from {schema}.claims`))
}

// TestRenewalDoesNotWaitForClaims renews while somebody holds a claim of which
// nothing is held: it is forgotten another time.
func TestRenewalDoesNotWaitForClaims(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k := newKit(schemas(t)(t), g)
	k.start(g, "a", 1)
	pod := k.join(time.Hour)
	k.complete(pod, k.claim(pod, 1)...)
	renew := func() {
		_, err := k.store.RenewPod(k.ctx, persistence.Renewal{Pod: pod, TTL: time.Hour})
		require.NoError(t, err)
	}
	release := k.hold(`select from {schema}.claims for update`)
	within(t, soon, renew)
	require.Equal(t, 1, value[int](k.database, `select count(*) from {schema}.claims`))
	release()
	renew()
	require.Zero(t, value[int](k.database, `select count(*) from {schema}.claims`))
}
