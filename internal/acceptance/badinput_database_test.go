package acceptance

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// A database that the engine cannot work on is refused with the remedy, and
// nothing is left running. Once it is repaired the same engine starts. The tests of
// package migrations have the other causes.
func TestB39AStartOnAnUnsuitableDatabaseNamesTheRemedy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil, mend string // {database} stands for its name
		migrated    bool
		kind        error
		remedy      string
	}{
		"not migrated": {kind: migrations.ErrBehind, remedy: "run `troupe migrate up` or migrations.Migrate"},
		"newer": {
			migrated: true,
			spoil:    "insert into troupe.schema_version (version, name) values (10000, 'of the future')",
			mend:     "delete from troupe.schema_version where version = 10000",
			kind:     migrations.ErrNewer, remedy: "upgrade the program",
		},
		"read-only": {
			migrated: true,
			spoil:    "alter database {database} set default_transaction_read_only = on",
			mend:     "alter database {database} reset default_transaction_read_only",
			kind:     migrations.ErrServer, remedy: "turn default_transaction_read_only off",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := pgtest.Database(t)
			admin := poolOn(t, address, "default_transaction_read_only", "off")
			var database string
			require.NoError(t, admin.QueryRow(t.Context(), "select current_database()").Scan(&database))
			run := func(sql string) {
				_, err := admin.Exec(t.Context(), strings.ReplaceAll(sql, "{database}", pgx.Identifier{database}.Sanitize()))
				require.NoError(t, err)
			}
			if test.migrated {
				_, err := migrations.Migrate(t.Context(), admin, migrations.DefaultSchema)
				require.NoError(t, err)
			}
			run(test.spoil)

			pool := poolOn(t, address, "application_name", "the embedder")
			engine, err := troupe.New(pool, troupe.Config{})
			require.NoError(t, err)
			_, err = troupe.Register(engine, single(func(_ context.Context, in string) (string, error) { return in, nil }))
			require.NoError(t, err)
			err = engine.Start(t.Context())
			require.ErrorIs(t, err, test.kind)
			require.ErrorContains(t, err, test.remedy)
			require.Nil(t, engine.PID())
			require.Nil(t, engine.System())
			var sessions int
			require.NoError(t, admin.QueryRow(t.Context(), `select count(*) from pg_stat_activity
				where datname = current_database() and application_name like 'troupe%'`).Scan(&sessions))
			require.Zero(t, sessions, "sessions of the engine")

			run(test.mend)
			_, err = migrations.Migrate(t.Context(), admin, migrations.DefaultSchema)
			require.NoError(t, err)
			pool.Reset() // its sessions have the settings of their start
			require.NoError(t, engine.Start(t.Context()))
			require.NoError(t, engine.Stop(t.Context()))
		})
	}
}

// poolOn returns a pool whose sessions have a setting.
func poolOn(t *testing.T, address, name, value string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(address)
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams[name] = value
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}
