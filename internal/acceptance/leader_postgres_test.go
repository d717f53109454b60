package acceptance

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// sleeper is a workflow whose run ends after a timer.
func sleeper(asleep time.Duration) *troupe.Workflow[string, int] {
	return troupe.Define("sleeper", func(b *troupe.Builder[string]) troupe.StepRef[int] {
		return troupe.Step0(b, "step", number, troupe.After(troupe.Sleep(b, "sleep", asleep)))
	})
}

// sleeping starts a pod with that workflow.
func sleeping(t *testing.T, pool *pgxpool.Pool, asleep time.Duration, config troupe.Config) (*troupe.Engine, *troupe.Handle[string, int]) {
	t.Helper()
	config.Pulse, config.Lease = time.Second, 4*time.Second
	engine, err := troupe.New(pool, config)
	require.NoError(t, err)
	handle, err := troupe.Register(engine, sleeper(asleep))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() {
		ended, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = engine.Stop(ended)
	})
	return engine, handle
}

// refusing is a connection that ends once it is used while the proxy is gone.
type refusing struct {
	net.Conn

	gone *atomic.Bool
}

var errProxyGone = errors.New("the proxy is gone")

// Write implements net.Conn.
func (c *refusing) Write(b []byte) (int, error) {
	if c.gone.Load() {
		_ = c.Close() // the error says it
		return 0, errProxyGone
	}
	return c.Conn.Write(b)
}

// The proxy of the leader's pool goes away, while the leader's session, which bypasses
// the proxy, survives. Another pod must lead, and /readyz must say so.
func TestALeaderBehindADeadProxyIsReplaced(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(net.Conn, *atomic.Bool) (net.Conn, error){
		"silent": func(conn net.Conn, gone *atomic.Bool) (net.Conn, error) {
			return &swallowing{Conn: conn, swallows: gone}, nil
		},
		"refusing": func(conn net.Conn, gone *atomic.Bool) (net.Conn, error) {
			if gone.Load() {
				return nil, errors.Join(errProxyGone, conn.Close())
			}
			return &refusing{Conn: conn, gone: gone}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var gone atomic.Bool
			url := pgtest.Database(t)
			pool := migratedPool(t, url, func(config *pgxpool.Config) {
				dial := config.ConnConfig.DialFunc
				config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := dial(ctx, network, address)
					if err != nil {
						return nil, err
					}
					return wrap(conn, &gone)
				}
			})
			first, _ := sleeping(t, pool, time.Second, troupe.Config{DirectURL: url})
			require.Eventually(t, func() bool { return first.Stats().Leading }, 30*time.Second, 10*time.Millisecond)
			second, handle := sleeping(t, poolOf(t, url), time.Second, troupe.Config{})
			require.Eventually(t, func() bool { return first.Stats().Pods == 2 }, 30*time.Second, 10*time.Millisecond)
			p := probe(t, first)
			p.until(http.StatusOK, time.Second)
			run, err := handle.RunNoWait(t.Context(), "")
			require.NoError(t, err)

			gone.Store(true)
			begun := time.Now()
			t.Logf("/readyz is 503 %v after the proxy was gone", p.until(http.StatusServiceUnavailable, 2*time.Second))
			_, h := p.get("/readyz")
			require.Contains(t, h.Reason, "the pool does not answer")
			require.True(t, h.Live && h.Leading)
			require.Equal(t, "live", h.Lease)
			require.Eventually(t, func() bool { return second.Stats().Leading }, 30*time.Second, 10*time.Millisecond)
			t.Logf("the other leads after %v", time.Since(begun))
			_, err = run.Await(t.Context())
			require.NoError(t, err, "its timer fires")
			require.False(t, first.Stats().Leading)

			gone.Store(false)
			t.Logf("/readyz is 200 %v after the proxy was back", p.until(http.StatusOK, 10*time.Second))
			require.True(t, second.Stats().Leading)
		})
	}
}

// The leader's session survives from one ping to the next, however rare they are.
func TestALeaderThatPingsRarelyKeepsItsTerm(t *testing.T) {
	t.Parallel()
	pool := migratedPool(t, pgtest.Database(t), nil)
	engine, handle := sleeping(t, pool, 9*time.Second, troupe.Config{LeaderPing: 4 * time.Second, LeaderSilence: 8 * time.Second})
	require.Eventually(t, func() bool { return engine.Stats().Leading }, 30*time.Second, 10*time.Millisecond)
	epoch := func() (n int64) {
		require.NoError(t, pool.QueryRow(t.Context(), "select epoch from troupe.leader_epoch").Scan(&n))
		return n
	}
	before := epoch()
	_, err := handle.Run(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, before, epoch(), "terms meanwhile")
	require.Zero(t, engine.Stats().Errors)
}

// The role has no connection left. A pod whose leader session has ended gets one from
// its pool, and leads again.
func TestAPoolGivesTheLeaderAConnection(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	owner := poolOf(t, address)
	limited := as(t, owner, address, "")
	role := poolOf(t, limited).Config().ConnConfig.User
	migrate(t, owner)
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := owner.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	exec("grant usage on schema troupe to " + role + "; grant all on all tables in schema troupe to " + role)
	pool := poolOf(t, limited)
	engine, handle := sleeping(t, pool, 100*time.Millisecond, troupe.Config{})
	require.Eventually(t, func() bool { return engine.Stats().Leading }, 30*time.Second, 10*time.Millisecond)
	var wait sync.WaitGroup
	for range 50 { // the pool grows
		wait.Go(func() { _, _ = handle.Run(t.Context(), "") })
	}
	wait.Wait()
	exec("alter role " + role + " connection limit 10")
	fill := func() {
		for {
			conn, err := pgx.Connect(t.Context(), limited)
			if err != nil {
				require.ErrorContains(t, err, "too many connections")
				return
			}
			t.Cleanup(func() { _ = conn.Close(context.Background()) })
		}
	}
	fill()
	const sessions = "from pg_stat_activity where application_name like 'troupe leader %' and datname = current_database()"
	exec("select pg_terminate_backend(pid, 5000) " + sessions)
	fill()
	require.Eventually(t, func() bool {
		var leads bool
		require.NoError(t, owner.QueryRow(t.Context(), "select exists (select "+sessions+")").Scan(&leads))
		return leads && engine.Stats().Leading
	}, 30*time.Second, 10*time.Millisecond)
	_, err := handle.Run(t.Context(), "")
	require.NoError(t, err)
}
