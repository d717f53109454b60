package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// fill has a pool open n connections.
func (s *sessions) fill(t *testing.T, n int32) (held []*pgxpool.Conn) {
	t.Helper()
	for range n {
		conn, err := s.pool.Acquire(t.Context())
		require.NoError(t, err)
		held = append(held, conn)
	}
	return held
}

func releaseAll(held []*pgxpool.Conn) {
	for _, conn := range held {
		conn.Release()
	}
}

// However many want a connection, a pool gives one away now and then, and keeps enough
// to work.
func TestAPoolGivesLittleAway(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{PoolSize: 4}), storetest.Single())
	s := k.store.pool
	releaseAll(s.fill(t, 4))
	for _, left := range []int32{3, 2, 1, 1} {
		given := make(chan *pgx.Conn, 5)
		for range cap(given) {
			go func() {
				conn, err := k.store.Give(k.ctx, anyFits)
				assert.NoError(t, err)
				given <- conn
			}()
		}
		count := int32(0)
		for range cap(given) {
			if conn := <-given; conn != nil {
				count++
				require.NoError(t, conn.Ping(k.ctx))
				require.NoError(t, conn.Close(k.ctx))
			}
		}
		require.Equal(t, left, s.pool.Stat().TotalConns())
		require.LessOrEqual(t, count, int32(1))
		s.given = time.Time{} // some time has passed
	}
	behind := sessions{settle: "select 1", giving: make(chan struct{}, 1)}
	conn, err := behind.give(k.ctx, anyFits)
	require.NoError(t, err)
	require.Nil(t, conn, "a proxy's connections are not the server's")
}

// What does not fit stays, however often somebody asks, but what failed meanwhile does
// not: nobody knows in what state it is.
func TestAPoolKeepsWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{PoolSize: 4}), storetest.Single())
	s := k.store.pool
	releaseAll(s.fill(t, 4))
	for range 10 {
		conn, err := k.store.Give(k.ctx, func(context.Context, *pgx.Conn) (bool, error) { return false, nil })
		require.NoError(t, err)
		require.Nil(t, conn)
	}
	require.Equal(t, int32(4), s.pool.Stat().TotalConns())
	conn, err := k.store.Give(k.ctx, func(context.Context, *pgx.Conn) (bool, error) { return true, errors.New("boom") })
	require.EqualError(t, err, "boom")
	require.Nil(t, conn)
	require.Eventually(t, func() bool { return s.pool.Stat().TotalConns() == 3 }, 5*time.Second, time.Millisecond)
	conn, err = k.store.Give(k.ctx, anyFits)
	require.NoError(t, err)
	require.NoError(t, conn.Close(k.ctx))
}

func anyFits(context.Context, *pgx.Conn) (bool, error) { return true, nil }

// Who asks while another connection is being given away does not wait for that longer
// than it may.
func TestAskingForAConnectionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	s := k.store.pool
	releaseAll(s.fill(t, 2))
	s.giving <- struct{}{}
	ctx, cancel := context.WithCancel(k.ctx)
	cancel()
	_, err := s.give(ctx, anyFits)
	require.ErrorIs(t, err, context.Canceled)
	<-s.giving
	conn, err := s.give(k.ctx, anyFits)
	require.NoError(t, err)
	require.NotNil(t, conn)
	require.NoError(t, conn.Close(k.ctx))
}

// Where a role has all the connections that it may, the lease is renewed on one of the
// pool's, which is busy or not, though somebody else takes whatever becomes free. The
// pool loses none by it, and no setting.
func TestThePoolLendsToTheLease(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	const role = "full"
	full := k.as(role)
	pod, _, err := full.JoinPod(k.ctx, persistence.PodInfo{Name: "p", TTL: time.Hour})
	require.NoError(t, err)
	renew := func() error {
		_, err := full.RenewPod(k.ctx, persistence.Renewal{Pod: pod, TTL: time.Hour})
		return err
	}
	require.NoError(t, renew())
	size := full.pool.pool.Config().MaxConns
	releaseAll(full.pool.fill(t, size))
	config := k.user.Config().ConnConfig
	loginAs(role)(config)
	k.exec(fmt.Sprintf(`alter role "%s" connection limit %d`, role, size))
	k.exec(`select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = $1`, role)
	full.pool.pool.Reset()
	full.pool.dials.note(false) // some time has passed
	held := full.pool.fill(t, size)
	_, err = pgx.ConnectConfig(k.ctx, config)
	require.ErrorContains(t, err, "too many connections")

	require.Error(t, renew(), "its session has gone, or none is to be had within the time of a call")
	require.True(t, full.lease.refused.IsZero(), "the next one asks for its own again")
	go func() {
		_, _ = held[0].Exec(k.ctx, "select pg_sleep(0.2)")
		held[0].Release()
	}()
	require.NoError(t, renew(), "the others are busy")
	releaseAll(held[1:])
	for range 5 {
		require.NoError(t, renew())
		require.NoError(t, full.Ping(k.ctx))
	}
	held = full.pool.fill(t, size)
	for _, conn := range held {
		var lock, statement string
		require.NoError(t, conn.QueryRow(k.ctx, "select current_setting('lock_timeout'), current_setting('statement_timeout')").Scan(&lock, &statement))
		require.Equal(t, []string{"2s", "30s"}, []string{lock, statement})
	}
	releaseAll(held)

	k.exec(fmt.Sprintf(`alter role "%s" connection limit -1`, role))
	full.lease.refused = clock.System{}.Now().Add(-refusedFor)
	require.NoError(t, renew())
	require.True(t, full.lease.refused.IsZero(), "it has its own again")
}
