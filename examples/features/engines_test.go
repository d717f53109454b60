package features_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// inMemory registers a workflow with an engine in memory, starts it and hands
// both over. Everything runs in a bubble: time moves on when nothing else can.
func inMemory[I, O any](
	t *testing.T, config troupe.Config, w *troupe.Workflow[I, O],
	use func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[I, O]),
) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, err := troupe.NewInMemory(config)
		require.NoError(t, err)
		use(t, engine, start(t, engine, w))
	})
}

// onPostgres does the same on a database of the test's own, in real time.
func onPostgres[I, O any](
	t *testing.T, w *troupe.Workflow[I, O],
	use func(t *testing.T, pool *pgxpool.Pool, handle *troupe.Handle[I, O]),
) {
	t.Helper()
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = migrations.Migrate(t.Context(), pool, "troupe")
	require.NoError(t, err)
	engine, err := troupe.New(pool, troupe.Config{})
	require.NoError(t, err)
	use(t, pool, start(t, engine, w))
}

func start[I, O any](t *testing.T, engine *troupe.Engine, w *troupe.Workflow[I, O]) *troupe.Handle[I, O] {
	t.Helper()
	handle, err := troupe.Register(engine, w)
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })
	return handle
}

// statesOf returns the state of each step of a run.
func statesOf(t *testing.T, engine *troupe.Engine, run troupe.RunID) map[string]troupe.State {
	t.Helper()
	status, err := engine.Status(t.Context(), "", run)
	require.NoError(t, err)
	states := map[string]troupe.State{}
	for _, step := range status.Steps {
		states[step.Name] = step.State
	}
	return states
}

// ledger is what step functions, which run on goroutines of their own, note
// for the test.
type ledger[T any] struct {
	mu    sync.Mutex
	lines []T
}

func (l *ledger[T]) add(line T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *ledger[T]) all() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}
