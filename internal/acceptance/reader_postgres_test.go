package acceptance

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// reads are all reads of a reader, of a run of the default tenant with a step "step".
func reads(reader *troupe.Reader, run troupe.RunID) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"Run":       func(ctx context.Context) error { _, err := reader.Run(ctx, "", run); return err },
		"Runs":      func(ctx context.Context) error { _, err := reader.Runs(ctx, troupe.Filter{}); return err },
		"Payload":   func(ctx context.Context) error { _, err := reader.Payload(ctx, "", run, "step", 0); return err },
		"Events":    func(ctx context.Context) error { _, _, err := reader.Events(ctx, "", run, nil, 0); return err },
		"Explain":   func(ctx context.Context) error { _, err := reader.Explain(ctx, "", run); return err },
		"Queues":    func(ctx context.Context) error { _, err := reader.Queues(ctx, ""); return err },
		"Parked":    func(ctx context.Context) error { _, err := reader.Parked(ctx, ""); return err },
		"Workflows": func(ctx context.Context) error { _, err := reader.Workflows(ctx); return err },
		"Pods":      func(ctx context.Context) error { _, err := reader.Pods(ctx); return err },
	}
}

// A reader needs no engine, and a standby will do.
func TestAReaderReadsAStandby(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, nil)
	url, err := server.CreateDatabase(t.Context(), "reads")
	require.NoError(t, err)
	pool := poolOf(t, url)
	migrate(t, pool)
	engine, handle := starting(t, pool, troupe.Config{})
	require.NoError(t, engine.Start(t.Context()))
	run, err := handle.RunNoWait(t.Context(), "x", troupe.Tenant("acme"))
	require.NoError(t, err)
	_, err = run.Await(t.Context())
	require.NoError(t, err)
	require.NoError(t, engine.Stop(t.Context()))
	var data string
	require.NoError(t, pool.QueryRow(t.Context(), "select current_setting('data_directory')").Scan(&data))
	require.NoError(t, os.WriteFile(filepath.Join(data, "standby.signal"), nil, 0o600))
	require.NoError(t, server.Restart(t.Context()))
	pool.Reset()

	reader, err := troupe.OpenReader(t.Context(), pool, "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reader.Close()) })
	for name, read := range reads(reader, run.ID()) {
		require.NoError(t, read(t.Context()), name)
	}
	status, err := reader.Run(t.Context(), "acme", run.ID())
	require.NoError(t, err)
	require.Equal(t, troupe.StateCompleted, status.State)
	require.Positive(t, status.Steps[0].OutputSize)
	_, err = reader.Run(t.Context(), "another", run.ID())
	require.ErrorIs(t, err, troupe.ErrRunNotFound)
	page, err := reader.Runs(t.Context(), troupe.Filter{})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1, "of all tenants")
}

// A role that may only select is enough.
func TestAReaderNeedsNoRightToWrite(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	owner := poolOf(t, address)
	migrate(t, owner)
	role := as(t, owner, address, "")
	name := role[strings.Index(role, "://")+3 : strings.Index(role, ":secret")]
	for _, grant := range []string{"grant usage on schema troupe to " + name, "grant select on all tables in schema troupe to " + name} {
		_, err := owner.Exec(t.Context(), grant)
		require.NoError(t, err)
	}
	engine, handle := starting(t, owner, troupe.Config{})
	require.NoError(t, engine.Start(t.Context()))
	run, err := handle.RunNoWait(t.Context(), "x")
	require.NoError(t, err)
	_, err = run.Await(t.Context())
	require.NoError(t, err)
	reader, err := troupe.OpenReader(t.Context(), poolOf(t, role), "troupe")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reader.Close()) })
	for name, read := range reads(reader, run.ID()) {
		require.NoError(t, read(t.Context()), name)
	}
	pods, err := reader.Pods(t.Context())
	require.NoError(t, err)
	require.Len(t, pods, 1)
	require.Positive(t, pods[0].Lease)
	require.LessOrEqual(t, pods[0].Lease, time.Minute)
}

// A schema of another version is refused with the remedy.
func TestAReaderRefusesOtherTables(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	_, err := troupe.OpenReader(t.Context(), pool, "troupe")
	require.ErrorIs(t, err, migrations.ErrBehind)
	require.ErrorContains(t, err, "run `troupe migrate up`")
	migrate(t, pool)
	_, err = pool.Exec(t.Context(), "delete from troupe.schema_version where version = (select max(version) from troupe.schema_version)")
	require.NoError(t, err)
	_, err = troupe.OpenReader(t.Context(), pool, "troupe")
	require.ErrorIs(t, err, migrations.ErrBehind)
	_, err = pool.Exec(t.Context(), "insert into troupe.schema_version (version, name) values (9999, 'later')")
	require.NoError(t, err)
	_, err = troupe.OpenReader(t.Context(), pool, "troupe")
	require.ErrorIs(t, err, migrations.ErrNewer)
	_, err = troupe.OpenReader(t.Context(), pool, "No Name")
	require.ErrorContains(t, err, "Schema")
}
