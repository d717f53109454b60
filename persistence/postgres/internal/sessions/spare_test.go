package sessions

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
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// openPool returns a pool of a size on a database of its own, after as many
// connections were opened, and where they go.
func openPool(t *testing.T, size int32) (*Pool, Options) {
	t.Helper()
	user, err := pgxpool.New(t.Context(), pgtest.Database(t))
	require.NoError(t, err)
	t.Cleanup(user.Close)
	options := Options{Pool: user, Size: size, Application: "test"}
	pool, err := Open(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	releaseAll(pool.fill(t))
	return pool, options
}

// fill opens all connections of a pool.
func (p *Pool) fill(t *testing.T) (held []*pgxpool.Conn) {
	t.Helper()
	for range p.pool.Config().MaxConns {
		conn, err := p.pool.Acquire(t.Context())
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

func anyFits(context.Context, *pgx.Conn) (bool, error) { return true, nil }

// However many want a connection, a pool gives one away now and then, and keeps enough
// to work.
func TestAPoolGivesLittleAway(t *testing.T) {
	t.Parallel()
	p, _ := openPool(t, 4)
	for _, left := range []int32{3, 2, 1, 1} {
		given := make(chan *pgx.Conn, 5)
		for range cap(given) {
			go func() {
				conn, err := p.Give(t.Context(), anyFits)
				assert.NoError(t, err)
				given <- conn
			}()
		}
		count := int32(0)
		for range cap(given) {
			if conn := <-given; conn != nil {
				count++
				require.NoError(t, conn.Ping(t.Context()))
				require.NoError(t, conn.Close(t.Context()))
			}
		}
		require.Equal(t, left, p.pool.Stat().TotalConns())
		require.LessOrEqual(t, count, int32(1))
		p.given = time.Time{} // some time has passed
	}
	behind := Pool{settle: "select 1", giving: make(chan struct{}, 1)}
	conn, err := behind.Give(t.Context(), anyFits)
	require.NoError(t, err)
	require.Nil(t, conn, "a proxy's connections are not the server's")
}

// A connection that does not fit stays in the pool, however often it is tried. A connection
// on which the check failed leaves it, since its state is unknown.
func TestAPoolKeepsWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	p, _ := openPool(t, 4)
	for range 10 {
		conn, err := p.Give(t.Context(), func(context.Context, *pgx.Conn) (bool, error) { return false, nil })
		require.NoError(t, err)
		require.Nil(t, conn)
	}
	require.Equal(t, int32(4), p.pool.Stat().TotalConns())
	conn, err := p.Give(t.Context(), func(context.Context, *pgx.Conn) (bool, error) { return true, errors.New("boom") })
	require.EqualError(t, err, "boom")
	require.Nil(t, conn)
	require.Eventually(t, func() bool { return p.pool.Stat().TotalConns() == 3 }, 30*time.Second, time.Millisecond)
	conn, err = p.Give(t.Context(), anyFits)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
}

// A caller that waits while another connection is given away gives up with its context.
func TestAskingForAConnectionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p, _ := openPool(t, 2)
	p.giving <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Give(ctx, anyFits)
	require.ErrorIs(t, err, context.Canceled)
	<-p.giving
	conn, err := p.Give(t.Context(), anyFits)
	require.NoError(t, err)
	require.NotNil(t, conn)
	require.NoError(t, conn.Close(t.Context()))
}

// A role at its connection limit renews the lease on a connection of the pool, busy or idle,
// even if another session takes every free slot. The pool keeps its connections and their
// settings.
func TestThePoolLendsToTheLease(t *testing.T) {
	t.Parallel()
	const size = 6
	_, owners := openPool(t, 1)
	exec := func(sql string, args ...any) {
		_, err := owners.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	const role = "full"
	exec("create role " + role + " login password 'ordinary'")
	t.Cleanup(func() {
		_, err := owners.Pool.Exec(context.Background(), "drop role "+role)
		require.NoError(t, err)
	})
	direct := owners.Pool.Config().ConnConfig
	direct.User, direct.Password = role, "ordinary"
	options := Options{Pool: owners.Pool, Direct: direct, Size: size, Application: "test"}
	full, err := Open(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(full.Close)
	lease, err := OpenLease(t.Context(), options, full)
	require.NoError(t, err)
	t.Cleanup(lease.Close)
	within := func(d time.Duration) error { // a renewal has a time, as every call
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		return lease.Use(ctx, func(on *pgx.Conn) error {
			if err := lease.Settle(ctx, on, time.Hour); err != nil {
				return err
			}
			return on.Ping(ctx)
		})
	}
	renew := func() error { return within(time.Minute) }
	require.NoError(t, renew())
	releaseAll(full.fill(t))
	exec(fmt.Sprintf("alter role %s connection limit %d", role, size))
	exec("select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = $1", role)
	full.pool.Reset()
	full.dials.note(false) // some time has passed
	held := full.fill(t)
	_, err = pgx.ConnectConfig(t.Context(), direct)
	require.ErrorContains(t, err, "too many connections")

	require.Error(t, within(time.Second), "its session has gone, or none is to be had within the time of a call")
	require.True(t, lease.refused.IsZero(), "the next one asks for its own again")
	go func() {
		_, _ = held[0].Exec(t.Context(), "select pg_sleep(0.2)")
		held[0].Release()
	}()
	require.NoError(t, renew(), "the others are busy")
	releaseAll(held[1:])
	for range 5 {
		require.NoError(t, renew())
	}
	held = full.fill(t)
	for _, conn := range held {
		var lock, statement string
		require.NoError(t, conn.QueryRow(t.Context(), "select current_setting('lock_timeout'), current_setting('statement_timeout')").Scan(&lock, &statement))
		require.Equal(t, []string{"1s", "30s"}, []string{lock, statement})
	}
	releaseAll(held)

	exec(fmt.Sprintf("alter role %s connection limit -1", role))
	lease.refused = clock.System{}.Now().Add(-refusedFor)
	require.NoError(t, renew())
	require.True(t, lease.refused.IsZero(), "it has its own again")
}
