package acceptance

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// seen is a tracer that keeps the names of statements, as docs/tracing.md reads them.
type seen struct {
	mu    sync.Mutex
	names map[string]int
}

var (
	_ pgx.QueryTracer = (*seen)(nil)
	_ pgx.BatchTracer = (*seen)(nil)
)

func (s *seen) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	s.note(query.SQL)
	return ctx
}

func (*seen) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*seen) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (s *seen) TraceBatchQuery(_ context.Context, _ *pgx.Conn, query pgx.TraceBatchQueryData) {
	s.note(query.SQL)
}

func (*seen) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (s *seen) note(sql string) {
	name, named := strings.CutPrefix(sql, "/* troupe ")
	if name, _, _ = strings.Cut(name, " "); !named {
		name = "unnamed: " + name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]int{}
	}
	s.names[name]++
}

func (s *seen) times(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[name]
}

// TestTheTracerSeesStatementsByName: those of the engine's own connections, the lease and the
// leader's session included; the embedder's pool keeps its tracer.
func TestTheTracerSeesStatementsByName(t *testing.T) {
	t.Parallel()
	given, own := &statements{}, &seen{}
	pool := traced(t, given)
	given.take()
	engine, err := troupe.New(pool, troupe.Config{Tracer: own, Pulse: 100 * time.Millisecond})
	require.NoError(t, err)
	handle := join(t, engine, single(number))
	_, err = handle.Run(t.Context(), "")
	require.NoError(t, err)
	for _, name := range []string{"renew_pod", "ping", "join_pod", "insert_runs", "record_small", "try_lead", "bump_epoch"} {
		// The caller may hear of the end of the run before the pod has read that it is recorded.
		require.Eventually(t, func() bool { return own.times(name) > 0 }, 30*time.Second, 50*time.Millisecond, name)
	}
	for sql := range given.take() {
		require.NotContains(t, sql, "/* troupe ", "a statement of the engine's own connections")
	}
}

// counting is a log handler that counts the records of steps.
type counting struct {
	slog.Handler

	records *atomic.Int64
}

func (counting) Enabled(context.Context, slog.Level) bool { return true }
func (c counting) WithAttrs(attrs []slog.Attr) slog.Handler {
	return counting{c.Handler.WithAttrs(attrs), c.records}
}

func (c counting) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "of the step" {
		c.records.Add(1)
	}
	return nil
}

// TestLoggerOfAStepHasNoQueue: its records are written when the step logs them, so that none of
// them is dropped where the engine's are.
func TestLoggerOfAStepHasNoQueue(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	var records atomic.Int64
	handler := counting{slog.DiscardHandler, &records}
	engine, err := troupe.New(pool, troupe.Config{Logger: slog.New(handler)})
	require.NoError(t, err)
	const lines = 2000 // more than may wait
	handle := join(t, engine, single(func(ctx context.Context, _ string) (int, error) {
		logger := troupe.Logger(ctx)
		for range lines {
			logger.Info("of the step")
		}
		return int(records.Load()), nil
	}))
	count, err := handle.Run(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, lines, count)
}
