package troupe_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// statements counts what the connections of a pool, and those made from its
// settings, send to PostgreSQL.
type statements struct {
	mu    sync.Mutex
	count map[string]int
}

// TraceQueryStart implements pgx.QueryTracer.
func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[query.SQL]++
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// take returns what was counted since the last call.
func (s *statements) take() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counted := s.count
	s.count = map[string]int{}
	return counted
}

// TestI15IdlePodsHardlyTalk: three pods without work send at most two
// statements a second together, the leader's pings included.
func TestI15IdlePodsHardlyTalk(t *testing.T) {
	if testing.Short() {
		t.Skip("watches idle pods for half a minute of real time")
	}
	t.Parallel()
	const pods, watch = 3, 35 * time.Second // a sweep of each pod is in it
	ctx := t.Context()
	settings, err := pgxpool.ParseConfig(pgtest.Database(t))
	require.NoError(t, err)
	sent := &statements{count: map[string]int{}}
	settings.ConnConfig.Tracer = sent
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = migrations.Migrate(ctx, pool, "troupe")
	require.NoError(t, err)
	for range pods {
		engine, err := troupe.New(pool, troupe.Config{})
		require.NoError(t, err)
		handle := join(t, engine, single(number))
		_, err = handle.Run(ctx, "")
		require.NoError(t, err)
	}

	time.Sleep(5 * time.Second) // elections and the first sweeps are over
	sent.take()
	time.Sleep(watch)
	total := 0
	for sql, count := range sent.take() {
		t.Logf("%3d × %.80s", count, sql)
		total += count
	}
	t.Logf("%d statements in %v: %.2f/s", total, watch, float64(total)/watch.Seconds())
	require.LessOrEqual(t, float64(total)/watch.Seconds(), 2.0)
	require.GreaterOrEqual(t, total, int(watch/time.Second)/2, "the leader's pings are counted")
}
