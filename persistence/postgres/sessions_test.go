package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// TestDifferentialBehindAProxy holds the store to the model where sessions keep
// nothing between two transactions.
func TestDifferentialBehindAProxy(t *testing.T) {
	open := schemasWith(t, Options{Proxied: true})
	storetest.Differential{
		Model: openModel,
		Product: func(t *testing.T) storetest.Harness {
			t.Helper()
			return open(t).harness()
		},
		Worlds: pgtest.Scale(1, 4), Operations: 250,
	}.Run(t)
}

// TestSettingsBehindAProxy looks at the settings of every kind of transaction:
// they are the store's inside, and gone afterwards.
func TestSettingsBehindAProxy(t *testing.T) {
	d := openDatabase(t, Options{Proxied: true, PoolSize: 1})
	name := pgx.Identifier{value[string](d, `select current_database()`)}.Sanitize()
	d.exec("alter database " + name + " set synchronous_commit = off")
	d.exec("alter database " + name + " set default_transaction_isolation = 'serializable'")
	store, err := Open(t.Context(), Options{Pool: d.user, Proxied: true, PoolSize: 1})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	const query = `select current_setting('jit') || ' ' || current_setting('synchronous_commit') || ' ' || current_setting('search_path')`
	const want = "off on pg_catalog, pg_temp"
	read := func(on pgsql.Querier) (got string) {
		rows, err := on.Query(t.Context(), query)
		require.NoError(t, err)
		got, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return got
	}
	require.Equal(t, want, showIn(t, store, "jit")+" "+showIn(t, store, "synchronous_commit")+" "+showIn(t, store, "search_path"))
	require.Equal(t, want, read(store.Conns))
	require.NoError(t, store.Write(t.Context(), func(_ context.Context, tx pgx.Tx) error {
		require.Equal(t, want, read(tx))
		return nil
	}))
	for _, first := range []bool{true, false} { // a query first, or a batch
		require.NoError(t, store.WriteShort(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			if !first {
				b := &pgsql.Batch{}
				b.Queue("select 1")
				require.NoError(t, pgsql.Send(ctx, tx, b))
			}
			require.Equal(t, want, read(tx))
			var level string
			rows, err := tx.Query(ctx, "show transaction_isolation")
			require.NoError(t, err)
			level, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
			require.Equal(t, "read committed", level)
			return err
		}))
	}
	var got string
	b := &pgsql.Batch{}
	b.Queue(query).QueryRow(func(row pgx.Row) error { return row.Scan(&got) })
	require.NoError(t, pgsql.Send(t.Context(), store.Conns, b))
	require.Equal(t, want, got)
	require.NoError(t, store.Conns.Bare().QueryRow(t.Context(), query).Scan(&got))
	require.NotEqual(t, want, got, "outside of transactions nothing is left")
}

// TestErrorsBehindAProxy: what a statement refuses, and what its commit does,
// reaches the caller, and the connection is given back.
func TestErrorsBehindAProxy(t *testing.T) {
	d := openDatabase(t, Options{Proxied: true, PoolSize: 1})
	d.exec(`create table public.late (n int unique deferrable initially deferred)`)
	var n int
	for range 3 {
		require.True(t, pgerr.HasCode(d.store.Conns.QueryRow(t.Context(), "select 1 / $1::int", 0).Scan(&n), "22012"))
		require.ErrorIs(t, d.store.Conns.QueryRow(t.Context(), "select 1 where false").Scan(&n), pgx.ErrNoRows)
		require.True(t, pgerr.HasCode(d.store.Conns.QueryRow(t.Context(), "select 1 from nothing").Scan(&n), pgerr.CodeUndefinedTable))
		err := d.store.Conns.QueryRow(t.Context(), "insert into public.late select 1 from generate_series(1, 2) returning n").Scan(&n)
		require.True(t, pgerr.HasCode(err, pgerr.CodeUniqueViolation), "%v", err)
		rows, err := d.store.Conns.Query(t.Context(), "select generate_series(1, 1000)")
		require.NoError(t, err)
		require.True(t, rows.Next())
		rows.Close() // long before the end
		require.NoError(t, rows.Err())
	}
}

// TestALeasePastTheProxy: while the proxy gives no session, leases are renewed.
func TestALeasePastTheProxy(t *testing.T) {
	d := openDatabase(t, Options{})
	config := d.user.Config()
	config.MaxConns = 1
	proxy, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	store, err := Open(t.Context(), Options{Pool: proxy, Proxied: true, Direct: config.ConnConfig, PoolSize: 1})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	d.store = store
	k := newFixture(d, storetest.Diamond())
	pod := k.join(time.Hour)
	busy, err := store.Conns.Bare().Acquire(t.Context())
	require.NoError(t, err)
	defer busy.Release()
	_, err = store.RenewPod(k.ctx, persistence.Renewal{Pod: pod, TTL: time.Hour})
	require.NoError(t, err)
}
