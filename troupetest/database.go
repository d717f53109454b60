package troupetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/migrations"
)

// DatabaseURL names the environment variable with the address of the tests' database.
const DatabaseURL = "TROUPE_DATABASE_URL"

// cleanMax is how long a test waits for what it has started to end.
const cleanMax = 30 * time.Second

// Pool returns a pool of the database that TROUPE_DATABASE_URL names, and closes it
// when the test ends. Without the variable the test is skipped, and where CI is set it
// fails. A test that finds its database in another way gives its own pool to the other
// functions. The role must be allowed to create schemas.
func Pool(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	url := os.Getenv(DatabaseURL)
	switch {
	case url == "" && os.Getenv("CI") != "":
		tb.Fatalf("troupetest: %s is not set: set it to the address of a database in which tests may create schemas", DatabaseURL)
	case url == "":
		tb.Skipf("troupetest: set %s to the address of a database in which tests may create schemas", DatabaseURL)
	}
	pool, err := pgxpool.New(tb.Context(), url)
	if err != nil {
		tb.Fatalf("troupetest: open the database of %s: %v", DatabaseURL, err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

// Schema makes the engine's tables in a new schema, and drops it when the test ends.
// It returns the name, for Config.Schema of the engines that share it.
func Schema(tb testing.TB, pool *pgxpool.Pool) string {
	tb.Helper()
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	schema := "troupetest_" + hex.EncodeToString(random[:])
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), cleanMax)
		defer cancel()
		for _, drop := range []string{
			"drop schema if exists " + pgx.Identifier{schema}.Sanitize() + " cascade",
			"drop publication if exists " + pgx.Identifier{migrations.Publication(schema)}.Sanitize(),
		} {
			if _, err := pool.Exec(ctx, drop); err != nil {
				tb.Errorf("troupetest: %s: %v", drop, err)
			}
		}
	})
	if _, err := migrations.Migrate(tb.Context(), pool, schema); err != nil {
		tb.Fatalf("troupetest: make the tables: %v", err)
	}
	return schema
}

// Engine returns an engine that is not started. Without Config.Schema it gets a schema
// of its own. It is stopped when the test ends.
func Engine(tb testing.TB, pool *pgxpool.Pool, config troupe.Config) *troupe.Engine {
	tb.Helper()
	if config.Schema == "" {
		config.Schema = Schema(tb, pool)
	}
	engine, err := troupe.New(pool, config)
	if err != nil {
		tb.Fatalf("troupetest: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), cleanMax)
		defer cancel()
		if err := engine.Stop(ctx); err != nil {
			tb.Errorf("troupetest: %v", err)
		}
	})
	return engine
}

// Register registers a workflow with an engine that is not started.
func Register[I, O any](tb testing.TB, engine *troupe.Engine, d troupe.Definition[I, O]) *troupe.Handle[I, O] {
	tb.Helper()
	handle, err := troupe.Register(engine, d)
	if err != nil {
		tb.Fatalf("troupetest: %v", err)
	}
	return handle
}

// Start starts an engine.
func Start(tb testing.TB, engine *troupe.Engine) {
	tb.Helper()
	if err := engine.Start(tb.Context()); err != nil {
		tb.Fatalf("troupetest: %v", err)
	}
}
