package main

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// The command prints what it would do, without a database, and does it when it is told to.
func TestGrantCommand(t *testing.T) {
	t.Parallel()
	const said = `grant usage on schema "troupe" to "grant_command_reader";
grant select on "troupe".run_list, "troupe".step_list, "troupe".event_list, "troupe".dead_letter_list, "troupe".signal_list to "grant_command_reader";
`
	args := []string{"grant", "--role", "reader", "--to", "grant_command_reader"}
	code, out, problem := call(nil, args...)
	require.Zero(t, code, problem)
	require.Equal(t, said, out)
	code, out, _ = call([]string{"TROUPE_SCHEMA=other"}, args...)
	require.Zero(t, code)
	require.Contains(t, out, `"other".run_list`)

	address := pgtest.Database(t)
	environ := []string{"TROUPE_DATABASE_URL=" + address}
	code, out, problem = call(environ, append(args, "--apply")...)
	require.Equal(t, exitFailed, code)
	require.Empty(t, out)
	require.Contains(t, problem, "or run troupe migrate up")
	pool, err := pgxpool.New(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
	code, _, problem = call(environ, append(args, "--apply")...)
	require.Equal(t, exitFailed, code)
	require.Contains(t, problem, "create it first")
	_, err = pool.Exec(t.Context(), "create role grant_command_reader")
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := pool.Exec(context.WithoutCancel(t.Context()), "drop owned by grant_command_reader; drop role grant_command_reader")
		require.NoError(t, err)
	})
	code, out, problem = call(environ, append(args, "--apply")...)
	require.Zero(t, code, problem)
	require.Equal(t, said, out)
	var may bool
	require.NoError(t, pool.QueryRow(t.Context(), "select has_table_privilege('grant_command_reader', 'troupe.step_list', 'select')").Scan(&may))
	require.True(t, may)
}
