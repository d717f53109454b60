package acceptance

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// A network passes small packets and drops large ones, so that a pod renews its lease
// but cannot record outcomes. After two leases another pod has its tasks, and the pod
// reports that it is not ready.
func TestANetworkThatDropsWhatIsLarge(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for leases in real time")
	}
	var gray atomic.Bool
	url := pgtest.Database(t)
	release := make(chan struct{})
	pods := make(chan string, 10)
	start := func(name string, change func(*pgxpool.Config)) (*troupe.Engine, *troupe.Handle[string, string]) {
		engine, err := troupe.New(migratedPool(t, url, change), troupe.Config{PodName: name, Pulse: time.Second, Lease: 5 * time.Second})
		require.NoError(t, err)
		handle, err := troupe.Register(engine, single(func(ctx context.Context, in string) (string, error) {
			pods <- name
			select {
			case <-release:
			case <-ctx.Done():
			}
			return strings.Repeat(in, 8<<10), nil
		}))
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
		t.Cleanup(func() {
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			_ = engine.Stop(ended)
		})
		return engine, handle
	}
	cut, triggers := start("cut", func(config *pgxpool.Config) {
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return &narrow{Conn: conn, gray: &gray}, err
		}
	})
	run, err := triggers.RunNoWait(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, "cut", <-pods)
	other, reads := start("other", nil)
	require.Eventually(t, func() bool { return cut.Stats().Pods == 2 && other.Stats().Pods == 2 }, time.Minute, 50*time.Millisecond)

	gray.Store(true)
	close(release)
	begun := time.Now()
	limited, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	_, err = reads.Get("", run.ID()).Await(limited)
	require.NoError(t, err)
	t.Logf("completed %v after large packets were lost", time.Since(begun))
	require.Equal(t, "other", <-pods)
	code, h := probe(t, cut).get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	t.Log(h.Reason)
	require.Equal(t, "lost", h.Lease)
	gray.Store(false)
	probe(t, cut).until(http.StatusOK, time.Minute)
}

// narrow is a connection that drops everything after the first large packet.
type narrow struct {
	net.Conn

	gray   *atomic.Bool
	silent atomic.Bool
}

// Write implements net.Conn.
func (c *narrow) Write(b []byte) (int, error) {
	const largest = 1400 // bytes of a packet
	if c.gray.Load() && len(b) > largest {
		c.silent.Store(true)
	}
	if c.silent.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}
