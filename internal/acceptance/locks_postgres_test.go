package acceptance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/lifecycle"
)

// lockTables locks tables exclusively, as VACUUM FULL and ALTER TABLE do, until
// the returned function is called.
func lockTables(t *testing.T, pool *pgxpool.Pool, tables string) (release func()) {
	t.Helper()
	var deadlock *pgconn.PgError
	for {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		_, err = tx.Exec(t.Context(), "lock table "+tables+" in access exclusive mode")
		if errors.As(err, &deadlock) && deadlock.Code == "40P01" { // with the engine, which takes them in another order
			require.NoError(t, tx.Rollback(context.Background()))
			continue
		}
		require.NoError(t, err)
		return func() { require.NoError(t, tx.Rollback(context.Background())) }
	}
}

// Another session locks the tables for several leases: Await keeps waiting, and an
// attempt keeps running under its lease.
func TestLockedTablesCostTime(t *testing.T) {
	t.Parallel()
	const lease = 1250 * time.Millisecond
	for _, tables := range []string{
		"troupe.tasks", "troupe.workflow_runs, troupe.tasks, troupe.claims, troupe.task_progress",
	} {
		t.Run(tables, func(t *testing.T) {
			t.Parallel()
			pool := poolOf(t, pgtest.Database(t))
			migrate(t, pool)
			engine, err := troupe.New(pool, troupe.Config{Pulse: 250 * time.Millisecond, Lease: lease})
			require.NoError(t, err)
			begun, locked := make(chan struct{}, 9), make(chan struct{})
			handle := join(t, engine, single(func(ctx context.Context, _ string) (int, error) {
				begun <- struct{}{}
				<-locked
				select {
				case <-ctx.Done():
					return 0, troupe.Terminal(context.Cause(ctx))
				case <-time.After(2 * lease):
					return 1, nil
				}
			}))
			run, err := handle.RunNoWait(t.Context(), "")
			require.NoError(t, err)
			<-begun
			release := lockTables(t, pool, tables)
			close(locked)
			ended := make(chan error, 1)
			go func() {
				_, err := run.Await(t.Context())
				ended <- err
			}()
			select {
			case err := <-ended:
				require.Fail(t, "the run has not ended", "%v", err)
			case <-time.After(3 * lease):
			}
			release()
			require.NoError(t, <-ended)
			status, err := run.Status(t.Context())
			require.NoError(t, err)
			require.Equal(t, lifecycle.Completed, status.Steps[0].State)
			require.Equal(t, 1, status.Steps[0].Attempt)
			require.Empty(t, begun)
		})
	}
}

// The database ends statements and refuses connections: the run continues, and Await
// keeps waiting.
func TestAwaitOutlivesWhatTheDatabaseRefuses(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	engine, err := troupe.New(pool, troupe.Config{Sweep: 50 * time.Millisecond})
	require.NoError(t, err)
	let := make(chan struct{})
	handle := join(t, engine, single(func(context.Context, string) (int, error) { <-let; return 1, nil }))
	run, err := handle.RunNoWait(t.Context(), "")
	require.NoError(t, err)
	release := lockTables(t, pool, "troupe.workflow_runs")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := run.Await(ctx)
		ended <- err
	}()
	canceled := 0
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from (select pg_cancel_backend(a.pid) from pg_stat_activity a
			where a.datname = current_database() and a.query like '%troupe read_run%' and a.wait_event_type = 'Lock') c`).Scan(&n))
		canceled += n
		return canceled > 0
	}, 30*time.Second, 10*time.Millisecond)
	release()
	require.Empty(t, ended)
	close(let)
	require.NoError(t, <-ended)
	over := errors.New("over")
	cancel(over)
	release = lockTables(t, pool, "troupe.workflow_runs")
	defer release()
	_, err = run.Await(ctx)
	require.ErrorIs(t, err, over)
}
