package acceptance

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// Calls that find no tables return an error with the remedy. The pod works again once
// the tables are back.
func TestCallsWithoutTables(t *testing.T) {
	t.Parallel()
	pool := migratedPool(t, pgtest.Database(t), nil)
	engine, err := troupe.New(pool, troupe.Config{})
	require.NoError(t, err)
	handle, err := troupe.Register(engine, single(number))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { _ = engine.Stop(t.Context()) })
	run, err := handle.RunNoWait(t.Context(), "x")
	require.NoError(t, err)
	_, err = run.Await(t.Context())
	require.NoError(t, err)
	exec := func(sql string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec("alter table troupe.workflow_runs rename to elsewhere")
	_, triggered := handle.RunNoWait(t.Context(), "x")
	_, read := run.Status(t.Context())
	for name, err := range map[string]error{"trigger": triggered, "cancel": run.Cancel(t.Context(), ""), "read": read} {
		require.ErrorIs(t, err, migrations.ErrBehind, name)
		require.NotErrorIs(t, err, troupe.ErrUnavailable, name)
		require.ErrorContains(t, err, "troupe migrate up", name)
	}
	exec("alter table troupe.elsewhere rename to workflow_runs")
	_, err = handle.Run(t.Context(), "x")
	require.NoError(t, err)
}
