package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence/storetest"
)

// However many want a connection, and whoever takes what is freed: a pool gives one
// up now and then, and keeps enough to work.
func TestAPoolGivesUpLittle(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{PoolSize: 4}), storetest.Single())
	s := k.store.pool
	var held []*pgxpool.Conn
	for range 4 {
		conn, err := s.Acquire(k.ctx)
		require.NoError(t, err)
		held = append(held, conn)
	}
	for _, conn := range held {
		conn.Release()
	}
	for _, left := range []int32{3, 2, 1, 1} {
		var wait sync.WaitGroup
		for range 5 {
			wait.Go(func() { k.store.Yield(k.ctx) })
		}
		wait.Wait()
		require.Equal(t, left, s.pool.Stat().TotalConns())
		s.yielded = nil // some time has passed
	}
	behind := sessions{settle: "select 1", yielding: make(chan struct{}, 1)}
	require.False(t, behind.Yield(k.ctx, yieldOther), "a proxy's connections are not the server's")
}

// Who asks while another connection is being given up does not wait for that longer
// than it may.
func TestAYieldEndsWithItsContext(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	s := k.store.pool
	first, err := s.Acquire(k.ctx)
	require.NoError(t, err)
	second, err := s.Acquire(k.ctx)
	require.NoError(t, err)
	first.Release()
	second.Release()
	s.yielding <- struct{}{}
	ctx, cancel := context.WithCancel(k.ctx)
	cancel()
	require.False(t, s.Yield(ctx, yieldLease))
	<-s.yielding
	require.True(t, s.Yield(k.ctx, yieldLease))
}

// Where a role has all the connections that it may, one of the pool's is given up for
// the one that renews the lease, whether or not the pool is busy.
func TestThePoolMakesRoomForTheLease(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	const role = "full"
	full := k.as(role)
	require.NoError(t, full.Ping(k.ctx))
	limit := full.pool.pool.Config().MaxConns
	k.exec(fmt.Sprintf(`alter role "%s" connection limit %d`, role, limit))
	for _, busy := range []bool{false, true} {
		k.exec(`select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = $1`, role)
		full.pool.pool.Reset()
		full.pool.dials.note(false) // some time has passed
		full.pool.yielded = nil
		var held []*pgxpool.Conn
		for range limit {
			conn, err := full.pool.pool.Acquire(k.ctx)
			require.NoError(t, err)
			held = append(held, conn)
		}
		require.Error(t, full.Ping(k.ctx), "its session has gone, or none is to be had within the time of a call")
		var wait sync.WaitGroup
		for i, conn := range held {
			if busy && i == 0 {
				wait.Go(func() {
					_, _ = conn.Exec(k.ctx, "select pg_sleep(0.2)")
					conn.Release()
				})
			} else if !busy {
				conn.Release()
			}
		}
		require.NoError(t, full.Ping(k.ctx), "busy: %v", busy)
		wait.Wait()
		for _, conn := range held {
			conn.Release()
		}
	}
}
