package postgres

import (
	"sync"
	"testing"
	"time"

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
	for _, left := range []int32{3, 2, 2} {
		var wait sync.WaitGroup
		for range 5 {
			wait.Go(func() { k.store.Yield(k.ctx) })
		}
		wait.Wait()
		require.Equal(t, left, s.pool.Stat().TotalConns())
		s.yielded = s.yielded.Add(-yieldAgain)
	}
	s.yielded = time.Time{}
	behind := sessions{settle: "select 1"}
	require.False(t, behind.Yield(k.ctx), "a proxy's connections are not the server's")
}
