package features_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/troupetest"
)

// inMemory registers a workflow with an engine in memory, starts it and hands
// both over. Everything runs in a bubble: time moves on when nothing else can.
func inMemory[I, O any](
	t *testing.T, config troupe.Config, w troupe.Definition[I, O],
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

// onPostgres does the same on the database of TROUPE_DATABASE_URL, in a schema of the
// test's own and in real time.
func onPostgres[I, O any](
	t *testing.T, w *troupe.Workflow[I, O],
	use func(t *testing.T, pool *pgxpool.Pool, handle *troupe.Handle[I, O]),
) {
	t.Helper()
	pool, schema := database(t)
	engine := troupetest.Engine(t, pool, troupe.Config{Schema: schema})
	handle := troupetest.Register(t, engine, w)
	troupetest.Start(t, engine)
	use(t, pool, handle)
}

// database returns a pool, and a schema that is there until the test ends.
func database(t *testing.T) (pool *pgxpool.Pool, schema string) {
	t.Helper()
	t.Parallel()
	if os.Getenv(troupetest.DatabaseURL) == "" {
		t.Skip("set " + troupetest.DatabaseURL + " to run the examples on PostgreSQL")
	}
	pool = troupetest.Pool(t)
	return pool, troupetest.Schema(t, pool)
}

func start[I, O any](t *testing.T, engine *troupe.Engine, w troupe.Definition[I, O]) *troupe.Handle[I, O] {
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
