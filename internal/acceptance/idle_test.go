package acceptance

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
	if s.count == nil {
		s.count = map[string]int{}
	}
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
	s.count = nil
	return counted
}

// TestI15IdlePodsHardlyTalk: a pod without work that is alone sends at most 1.3
// statements a second, the leader's pings included, and each further pod 0.3; also where
// many tasks wait for signals, but for the leader's looks for ended runs among the open ones.
// The pings are one a second. Periodic work comes once in half a minute, and all of it may
// fall into the shorter time for which `make test` counts.
func TestI15IdlePodsHardlyTalk(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("watches idle pods for half a minute of real time")
	}
	const sweep = 32 * time.Second // one of each pod is in it, and all that it does now and then
	watch := pgtest.Scale(16*time.Second, 2*sweep)
	spans := float64((watch + sweep - 1) / sweep)
	const look = 5000 // open runs that one statement looks at for ended ones, whatever they wait for
	type cluster struct{ pods, waiting int }
	sent := map[cluster]*statements{{pods: 1}: {}, {pods: 4}: {}, {1, pgtest.Scale(20_000, 100_000)}: {}}
	for c, counted := range sent { // all watched at once, each on a database of its own
		pool := traced(t, counted)
		for range c.pods {
			idle(t, pool)
		}
		forget(t, pool)
		wait(t, pool, c.waiting)
	}
	time.Sleep(12 * time.Second) // elections and the first sweeps are over, and every pod was counted
	for _, counted := range sent {
		counted.take()
	}
	time.Sleep(watch)
	for c, counted := range sent {
		total := 0
		for sql, count := range counted.take() {
			t.Logf("%+v: %3d × %.80s", c, count, sql)
			total += count
		}
		t.Logf("%+v: %d statements in %v: %.2f/s", c, total, watch, float64(total)/watch.Seconds())
		// A stalled machine makes it fewer, never more.
		looks := spans * float64(c.waiting/look)
		require.LessOrEqual(t, float64(total), watch.Seconds()+0.3*float64(c.pods)*spans*sweep.Seconds()+looks, "%+v", c)
		require.Positive(t, total, "the leader's pings are counted")
	}
}

// TestOneSlotForManyPods: a pod that is alone reads no replication stream, two
// read one each, and of more one does.
func TestOneSlotForManyPods(t *testing.T) {
	t.Parallel()
	pool := traced(t, &statements{count: map[string]int{}})
	slots := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(),
			"select count(*) from pg_replication_slots where database = current_database()").Scan(&n))
		return n
	}
	settles := func(want int, mode string, pods ...*troupe.Engine) {
		t.Helper()
		require.Eventually(t, func() bool {
			for _, pod := range pods {
				if stats := pod.Stats(); stats.Mode != mode || stats.Pods != len(pods) {
					return false
				}
			}
			return slots() == want
		}, 30*time.Second, 50*time.Millisecond, "%d slots in the mode %s", want, mode)
	}
	first := idle(t, pool)
	settles(0, "spared", first)
	second := idle(t, pool)
	settles(2, "stream", first, second)
	third, fourth := idle(t, pool), idle(t, pool)
	settles(1, "relay", first, second, third, fourth)
	require.NoError(t, first.Stop(t.Context()))
	settles(1, "relay", second, third, fourth)
}

// traced returns a pool on a new database with the tables in it.
func traced(t *testing.T, sent *statements) *pgxpool.Pool {
	t.Helper()
	settings, err := pgxpool.ParseConfig(pgtest.Database(t))
	require.NoError(t, err)
	settings.ConnConfig.Tracer = sent
	pool, err := pgxpool.NewWithConfig(t.Context(), settings)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	migrate(t, pool)
	return pool
}

// forget waits until finished runs are in history: moving them is not idle.
func forget(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(t.Context(), "update troupe.workflow_runs set finished_at = finished_at - interval '1 hour'")
	require.NoError(t, err)
	require.Eventually(t, func() (moved bool) {
		require.NoError(t, pool.QueryRow(t.Context(), "select not exists (select from troupe.workflow_runs)").Scan(&moved))
		return moved
	}, 90*time.Second, 100*time.Millisecond)
}

// idle starts a pod that has done something once.
func idle(t *testing.T, pool *pgxpool.Pool) *troupe.Engine {
	t.Helper()
	engine, err := troupe.New(pool, troupe.Config{})
	require.NoError(t, err)
	_, err = troupe.Register(engine, gate())
	require.NoError(t, err)
	handle := join(t, engine, single(number))
	_, err = handle.Run(t.Context(), "")
	require.NoError(t, err)
	return engine
}

// wait begins runs that wait for a signal.
func wait(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	if n == 0 {
		return
	}
	engine, handle := joined(t, pool, troupe.Config{ClientOnly: true}, gate())
	for left := n; left > 0; left -= troupe.RunManyMax {
		_, err := handle.RunMany(t.Context(), make([]string, min(left, troupe.RunManyMax)))
		require.NoError(t, err)
	}
	var waiting int
	require.NoError(t, pool.QueryRow(t.Context(), "select count(*) from troupe.step_list where state = 'waiting'").Scan(&waiting))
	require.Equal(t, n, waiting)
	require.NoError(t, engine.Stop(t.Context()))
}

// gate is a workflow whose only step waits for a signal.
func gate() *troupe.Workflow[string, approval] {
	return troupe.Define("gate", func(b *troupe.Builder[string]) troupe.StepRef[approval] {
		return troupe.WaitSignal(b, "gate", approved)
	})
}
