package acceptance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// A transaction that cannot store a run is the caller's error. It is not reported as an
// outage, unless an outage may be the cause.
func TestTriggerTxInATransactionThatCannotTakeIt(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	engine, handle := starting(t, pool, troupe.Config{})
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })
	untyped := pool.Config()
	untyped.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	other, err := pgxpool.NewWithConfig(t.Context(), untyped)
	require.NoError(t, err)
	t.Cleanup(other.Close)
	copied, empty := poolOf(t, pgtest.Database(t)), poolOf(t, pgtest.Database(t))
	migrate(t, copied)
	known, _ := starting(t, copied, troupe.Config{})
	require.NoError(t, known.Start(t.Context()))
	for name, test := range map[string]struct {
		pool    *pgxpool.Pool
		options pgx.TxOptions
		rows    bool
		ended   bool
		want    string
	}{
		"it only reads":            {pool: pool, options: pgx.TxOptions{AccessMode: pgx.ReadOnly}, want: "trigger in one that may write"},
		"rows of a query are open": {pool: pool, rows: true, want: "close them"},
		"of an untyped pool":       {pool: other, want: "cache_describe"},
		"it has ended":             {pool: pool, ended: true, want: "trigger before Commit"},
		"of another database":      {pool: copied, want: "to the same database"},
		"of one without tables":    {pool: empty, want: "to the same database"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tx, err := test.pool.BeginTx(t.Context(), test.options)
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(context.Background()) }()
			if test.rows {
				rows, err := tx.Query(t.Context(), "select generate_series(1, 100000)")
				require.NoError(t, err)
				defer rows.Close()
			}
			if test.ended {
				require.NoError(t, tx.Commit(t.Context()))
			}
			_, err = handle.TriggerTx(t.Context(), tx, "")
			require.ErrorContains(t, err, test.want)
			require.ErrorIs(t, err, troupe.ErrTxRefused)
			require.Equal(t, test.options.AccessMode == pgx.ReadOnly, errors.Is(err, troupe.ErrUnavailable), "it may be a standby")
		})
	}
}

func TestAPoolWithoutTypesIsRefused(t *testing.T) {
	t.Parallel()
	typed := poolOf(t, pgtest.Database(t))
	migrate(t, typed)
	untyped := typed.Config()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec} {
		untyped.ConnConfig.DefaultQueryExecMode = mode
		pool, err := pgxpool.NewWithConfig(t.Context(), untyped)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		engine, err := troupe.New(pool, troupe.Config{})
		require.NoError(t, err)
		require.ErrorContains(t, engine.Start(t.Context()), "cache_describe")
	}
}

// A trigger that waits for a key which a transaction holds says so when its context
// ends.
func TestATriggerSaysThatItsKeyIsHeld(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	engine, handle := starting(t, pool, troupe.Config{})
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }() // else a failure leaves the pool open for good
	_, err = handle.TriggerTx(t.Context(), tx, "", troupe.Key("one"))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // a busy machine reaches the lock late
	defer cancel()
	_, err = handle.RunNoWait(ctx, "", troupe.Key("one"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "held by a transaction")
	require.NoError(t, tx.Rollback(t.Context()))
	_, err = handle.RunNoWait(t.Context(), "", troupe.Key("one"))
	require.NoError(t, err)
}
