package acceptance

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// A step function that breaks its own transaction fails its attempt. If the task were
// handed back without a report it would be executed again without end.
func TestAStepThatSpoilsItsTransactionFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		statement, want string
		calls           int64
	}{
		"a failed statement is ignored":  {"select 1/0", "nothing of it can be kept", 1},
		"it is rolled back":              {"rollback", "ended the transaction", 1},
		"it is committed":                {"commit", "ended the transaction", 1},
		"it is committed, another begun": {"commit; begin", "ended the transaction", 1},
		"it is made to read only":        {"set transaction read only", "only reads", 1},
		"rows are left open":             {"", "close them", 1},
		"its session ends each time":     {"select pg_terminate_backend(pg_backend_pid())", "6 times in a row", 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := poolOf(t, pgtest.Database(t))
			migrate(t, pool)
			engine, err := troupe.New(pool, troupe.Config{})
			require.NoError(t, err)
			var calls atomic.Int64
			handle, err := troupe.Register(engine, single(func(ctx context.Context, _ string) (int, error) {
				calls.Add(1)
				if test.statement == "" {
					rows, err := troupe.Tx(ctx).Query(ctx, "select generate_series(1, 100000)")
					_ = rows.Next()
					return 1, err
				}
				_, _ = troupe.Tx(ctx).Exec(ctx, test.statement)
				return 1, nil
			}, troupe.InTx()))
			require.NoError(t, err)
			require.NoError(t, engine.Start(t.Context()))
			t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })

			_, err = handle.Run(t.Context(), "")
			require.ErrorIs(t, err, troupe.ErrRunFailed)
			require.ErrorContains(t, err, test.want)
			require.Equal(t, test.calls, calls.Load())
		})
	}
}

// A step that commits its own transaction is not retried: each attempt would commit
// again.
func TestAStepThatEndsItsTransactionIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	succeed := func(context.Context) error { return nil }
	fail := func(context.Context) error { return errBusy }
	for name, test := range map[string]struct {
		statement string
		then      func(ctx context.Context) error // the function, after that
		calls     int64
	}{
		"it is committed":                        {"commit", succeed, 1},
		"it is committed, then the step fails":   {"commit", fail, 1},
		"it is committed, then the step panics":  {"commit", func(context.Context) error { panic("boo") }, 1},
		"it is committed, then its session ends": {"commit", func(ctx context.Context) error { return troupe.Tx(ctx).Conn().Close(ctx) }, 1},
		"it is committed, another begun":         {"commit; begin", succeed, 1},
		"another is begun, then the step fails":  {"commit; begin", fail, 1},
		"another is begun, then the step exits": {"commit; begin", func(context.Context) error {
			runtime.Goexit()
			return nil
		}, 1},
		"it is rolled back":    {"rollback", succeed, 1},
		"the step fails in it": {"select 1", fail, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := poolOf(t, pgtest.Database(t))
			migrate(t, pool)
			_, err := pool.Exec(t.Context(), "create table effects ()")
			require.NoError(t, err)
			engine, err := troupe.New(pool, troupe.Config{})
			require.NoError(t, err)
			var calls atomic.Int64
			handle, err := troupe.Register(engine, single(func(ctx context.Context, _ string) (int, error) {
				calls.Add(1)
				_, err := troupe.Tx(ctx).Exec(ctx, "insert into effects default values")
				require.NoError(t, err)
				_, err = troupe.Tx(ctx).Exec(ctx, test.statement)
				require.NoError(t, err)
				return 1, test.then(ctx)
			}, troupe.InTx(), troupe.Retry{Attempts: 3, First: time.Millisecond}))
			require.NoError(t, err)
			require.NoError(t, engine.Start(t.Context()))
			t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })

			_, err = handle.Run(t.Context(), "")
			require.ErrorIs(t, err, troupe.ErrRunFailed)
			require.Equal(t, test.calls, calls.Load())
			var effects int
			require.NoError(t, pool.QueryRow(t.Context(), "select count(*) from effects").Scan(&effects))
			require.LessOrEqual(t, effects, 1)
			if test.calls > 1 {
				return
			}
			require.ErrorContains(t, err, "send no commit and no rollback")
			letters, err := engine.DeadLetters().List(t.Context(), troupe.DeadLetterFilter{Reasons: []troupe.DeadReason{troupe.DeadNonRetryable}})
			require.NoError(t, err)
			require.Len(t, letters.Letters, 1)
		})
	}
}

// A pod whose pool is closed leaves steps with a transaction to the pod beside it.
func TestAClosedPoolLeavesStepsToOtherPods(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	migrate(t, poolOf(t, address))
	start := func(pool *pgxpool.Pool) (*troupe.Engine, *troupe.Handle[string, int]) {
		engine, err := troupe.New(pool, troupe.Config{Slots: 4})
		require.NoError(t, err)
		handle, err := troupe.Register(engine, single(number, troupe.InTx()))
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
		t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })
		return engine, handle
	}
	pool := poolOf(t, address)
	closed, handle := start(pool)
	pool.Close()
	run, err := handle.RunNoWait(t.Context(), "")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Contains(closed.Stats().Degraded, "the pool is closed") }, 30*time.Second, 10*time.Millisecond)
	start(poolOf(t, address))
	_, err = run.Await(t.Context())
	require.NoError(t, err)
}

// A requeue returns when it is durable, although all connections of the embedder's
// pool are in use: the notification needs none of them.
func TestARequeueTakesNoConnectionOfTheEmbedders(t *testing.T) {
	t.Parallel()
	pool := migratedPool(t, pgtest.Database(t), func(config *pgxpool.Config) { config.MaxConns = 2 })
	engine, err := troupe.New(pool, troupe.Config{})
	require.NoError(t, err)
	handle, err := troupe.Register(engine, single(func(context.Context, string) (int, error) {
		return 0, troupe.Terminal(errBusy)
	}))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })
	for range 2 {
		_, err = handle.Run(t.Context(), "")
		require.ErrorIs(t, err, troupe.ErrRunFailed)
	}
	dead := engine.DeadLetters()
	page, err := dead.List(t.Context(), troupe.DeadLetterFilter{})
	require.NoError(t, err)
	require.Len(t, page.Letters, 2)
	for range pool.Config().MaxConns {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = dead.Requeue(ctx, "", page.Letters[0].ID, troupe.RequeueOptions{})
	require.NoError(t, err)
	report, err := dead.RequeueAll(ctx, troupe.DeadLetterFilter{Limit: 1}, troupe.RequeueOptions{})
	require.NoError(t, err)
	require.Len(t, report.Runs, 1)
	require.NoError(t, ctx.Err(), "it waited for a connection of the pool")
}
