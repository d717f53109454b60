package main

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// A schema that is not there, or is another one than that of the tables, is not taken for
// one that has to be migrated.
func TestAnotherSchemaIsNamed(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	pool, err := pgxpool.New(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	const run = "0190c2f3-7a1b-7c3d-8e4f-0123456789ab"
	calls := [][]string{
		{"runs", "list"},
		{"runs", "cancel", run},
		{"runs", "trigger", "orders", "--input", "1"},
		{"runs", "signal", run, "approved"},
		{"explain", run},
		{"dead-letters", "list"},
		{"queues"},
		{"grant", "--to", "a_role", "--apply"},
	}
	says := func(want string, environ ...string) {
		t.Helper()
		for _, args := range calls {
			code, out, problem := call(append(environ, "TROUPE_DATABASE_URL="+address), args...)
			require.Equal(t, exitFailed, code, "%v", args)
			require.Empty(t, out)
			require.Equal(t, "troupe: "+want+"\n", problem, "%v", args)
		}
	}
	says("schema troupe does not exist in that database: name another with --schema or TROUPE_SCHEMA, or run troupe migrate up, which makes it")
	_, err = pool.Exec(t.Context(), "create schema empty")
	require.NoError(t, err)
	says("schema empty of that database has no tables of troupe: run troupe migrate up, or name another with --schema or TROUPE_SCHEMA", "TROUPE_SCHEMA=empty")
	for _, schema := range []string{"shop", "shop_b"} {
		_, err = migrations.Migrate(t.Context(), pool, schema)
		require.NoError(t, err)
	}
	says("schema troupe does not exist in that database: the tables of troupe are in schema shop and in shop_b, to be named with --schema or TROUPE_SCHEMA")
	says("schema empty of that database has no tables of troupe: the tables of troupe are in schema shop and in shop_b, to be named with --schema or TROUPE_SCHEMA",
		"TROUPE_SCHEMA=empty")
	_, err = pool.Exec(t.Context(), "delete from shop.schema_version where version > 3")
	require.NoError(t, err)
	code, _, problem := call([]string{"TROUPE_DATABASE_URL=" + address, "TROUPE_SCHEMA=shop"}, "runs", "list")
	require.Equal(t, exitFailed, code)
	require.Contains(t, problem, "schema shop is at version 3")
}
