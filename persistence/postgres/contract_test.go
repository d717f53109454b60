package postgres

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/persistence/memory"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// schemas returns a function that opens store after store, each in a database of its
// own that has the tables.
func schemas(t *testing.T) func(t *testing.T) *database {
	t.Helper()
	return schemasWith(t, Options{})
}

// schemasWith is schemas with options of the stores, and with what the statements make
// in each database besides the tables.
func schemasWith(t *testing.T, options Options, statements ...string) func(t *testing.T) *database {
	t.Helper()
	return func(t *testing.T) *database {
		t.Helper()
		config, err := pgxpool.ParseConfig(migrated(t, statements...))
		require.NoError(t, err)
		config.MaxConns = 3
		user, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(user.Close)
		own := options
		own.PoolSize = 3
		return openStore(t, user, own)
	}
}

// published is schemas in databases with a publication of all tables, as change data
// capture and replicas of a whole database need: there the server refuses updates and
// deletes of tables without a replica identity.
func published(t *testing.T) func(t *testing.T) *database {
	t.Helper()
	return schemasWith(t, Options{}, "create publication everything for all tables")
}

// TestContract holds the store to what every store promises, also where all tables are
// published, and without a deadlock. Databases are emptied and used again.
func TestContract(t *testing.T) {
	opened, free := published(t), make(chan *database, 1000)
	open := func() *database {
		d := opened(t)
		d.store.Close()
		d.limit()
		return d
	}
	free <- open() // or the test is skipped as a whole
	storetest.Run(t, func(one *testing.T) storetest.Harness {
		one.Helper()
		var d *database
		select {
		case d = <-free:
		default:
			d = open()
		}
		one.Cleanup(func() {
			require.Zero(one, value[int](d, "select deadlocks from pg_stat_database where datname = current_database()"))
			d.empty()
			free <- d
		})
		return openStore(one, d.user, Options{PoolSize: 6}).eagerly()
	})
}

// TestDifferential holds the store, above all its statements for small work, to the model.
func TestDifferential(t *testing.T) {
	open := published(t)
	storetest.Differential{
		Model: openModel,
		Product: func(t *testing.T) storetest.Harness {
			t.Helper()
			d := open(t)
			d.limit()
			return d.eagerly()
		},
		Worlds: pgtest.Scale(3, 24), Operations: 250, Least: pgtest.Scale(0, 3),
	}.Run(t)
}

// TestDifferentialOfFewTenants does the same where no number is left for the
// third tenant.
func TestDifferentialOfFewTenants(t *testing.T) {
	t.Parallel()
	open := schemasWith(t, Options{TenantsMax: 2})
	storetest.Differential{
		Model: func(t *testing.T) storetest.Harness {
			t.Helper()
			return modelFor(t, 2)
		},
		Product: func(t *testing.T) storetest.Harness {
			t.Helper()
			return open(t).harness()
		},
		Worlds: pgtest.Scale(1, 3), Operations: 200, FewTenants: true,
	}.Run(t)
}

// openModel returns the model on a clock that moves only when told.
func openModel(t *testing.T) storetest.Harness {
	t.Helper()
	return modelFor(t, 0)
}

// modelFor is openModel for so many tenants.
func modelFor(t *testing.T, tenants int32) storetest.Harness {
	t.Helper()
	var passed atomic.Int64
	store := memory.New(memory.Options{
		Now: func() time.Time {
			return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(passed.Add(int64(time.Microsecond))))
		},
		Refuse: func(payload []byte) error {
			if string(payload) == storetest.BadPayload {
				return errors.New("refused")
			}
			return nil
		},
		TenantsMax: tenants,
	})
	return storetest.Harness{
		Store: store,
		Begin: func(context.Context) (storetest.Tx, error) {
			tx := store.Begin()
			return storetest.Tx{
				Value:    tx,
				Commit:   func(context.Context) error { return tx.Commit() },
				Rollback: func(context.Context) error { return tx.Rollback() },
			}, nil
		},
		Advance:  func(_ context.Context, d time.Duration) error { passed.Add(int64(d)); return nil },
		SetTimer: func(_ context.Context, timer snapshot.Timer) error { store.SetTimer(timer); return nil },
		Forget:   func(_ context.Context, run workflow.RunID) error { store.Forget(run); return nil },
		Snapshot: func(context.Context) (snapshot.Tables, error) { return store.Snapshot(), nil },
	}
}
