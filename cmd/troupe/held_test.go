package main

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// Commands that only read give up waiting for a lock on the version of the tables.
func TestCommandsDoNotWaitForTheVersion(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	environ := []string{"TROUPE_DATABASE_URL=" + url}
	code, _, problem := call(environ, "migrate", "up")
	require.Zero(t, code, problem)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), "begin; lock table troupe.schema_version in access exclusive mode")
	require.NoError(t, err)
	for _, args := range [][]string{{"migrate", "status"}, {"dlq", "count"}} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			code, _, problem := call(environ, args...)
			require.Equal(t, exitFailed, code)
			require.Contains(t, problem, "another session holds a lock for longer than 10s")
		})
	}
}
