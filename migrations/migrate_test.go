package migrations_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const schema = migrations.DefaultSchema

// connect opens a pool on an address, with the tests' changes to it.
func connect(t *testing.T, address string, changes ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(address)
	require.NoError(t, err)
	for _, change := range changes {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func fresh(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return connect(t, pgtest.Database(t))
}

func migrate(t *testing.T, pool *pgxpool.Pool, schema string) migrations.Report {
	t.Helper()
	report, err := migrations.Migrate(t.Context(), pool, schema)
	require.NoError(t, err)
	return report
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err, sql)
}

func value[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var v T
	require.NoError(t, pool.QueryRow(t.Context(), sql, args...).Scan(&v), sql)
	return v
}

// ordinary returns the address of a role without any right, and its name.
func ordinary(t *testing.T, admin *pgxpool.Pool) (string, string) {
	t.Helper()
	name := "role_" + value[string](t, admin, "select current_database()")
	name = name[:min(len(name), 63)]
	quoted := pgx.Identifier{name}.Sanitize()
	exec(t, admin, "create role "+quoted+" login nosuperuser nocreatedb noreplication password 'ordinary'")
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, err := admin.Exec(ctx, "drop owned by "+quoted+" cascade; drop role "+quoted)
		require.NoError(t, err)
	})
	address, err := url.Parse(admin.Config().ConnString())
	require.NoError(t, err)
	address.User = url.UserPassword(name, "ordinary")
	return address.String(), quoted
}

func TestUpFromNothing(t *testing.T) {
	t.Parallel()
	pool := fresh(t)

	before, err := migrations.Status(t.Context(), pool, schema)
	require.NoError(t, err)
	require.Zero(t, before.Version)
	require.NotZero(t, before.Latest)
	require.Len(t, before.Pending, before.Latest)
	require.Empty(t, before.Applied)
	require.Contains(t, before.Publication, "migrate with a role that has create on the database")
	require.False(t, value[bool](t, pool, "select to_regnamespace($1) is not null", schema), "status changes nothing")
	require.ErrorIs(t, migrations.Check(t.Context(), pool, schema), migrations.ErrBehind)

	report := migrate(t, pool, schema)
	require.Equal(t, migrations.Report{
		Schema: schema, Version: before.Latest, Latest: before.Latest, Applied: before.Pending,
	}, report)

	after, err := migrations.Status(t.Context(), pool, schema)
	require.NoError(t, err)
	require.Equal(t, migrations.Report{Schema: schema, Version: before.Latest, Latest: before.Latest}, after)
	require.NoError(t, migrations.Check(t.Context(), pool, schema))
}

func TestTwiceIsSafe(t *testing.T) {
	t.Parallel()
	pool := fresh(t)
	first := migrate(t, pool, schema)
	exec(t, pool, "insert into troupe.queues values (2, 'kept')")
	tables := describe(t, pool, schema)

	second := migrate(t, pool, schema)
	require.Empty(t, second.Applied)
	require.Equal(t, first.Version, second.Version)
	require.Equal(t, tables, describe(t, pool, schema))
	require.Equal(t, 1, value[int](t, pool, "select count(*) from troupe.queues where name = 'kept'"))
}

func TestOfManyAtOnceOneApplies(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			pool := connect(t, address, setting("default_transaction_isolation", isolation), func(c *pgxpool.Config) { c.MaxConns = 8 })
			name := strings.ReplaceAll(isolation, " ", "_")
			reports, errs := make([]migrations.Report, 8), make([]error, 8)
			var wg sync.WaitGroup
			for i := range reports {
				wg.Go(func() { reports[i], errs[i] = migrations.Migrate(t.Context(), pool, name) })
			}
			wg.Wait()
			applied := map[string]int{}
			for i, report := range reports {
				require.NoError(t, errs[i])
				require.Empty(t, report.Publication)
				require.Equal(t, report.Latest, report.Version)
				for _, file := range report.Applied {
					applied[file]++
				}
			}
			require.Len(t, applied, reports[0].Latest)
			for file, times := range applied {
				require.Equal(t, 1, times, file)
			}
		})
	}
}

func setting(name, value string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams[name] = value }
}

// B39: what a role, a database or a pool sets for its sessions changes nothing.
func TestB39OddSettingsOfTheSessionChangeNothing(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	admin := connect(t, address)
	migrate(t, admin, "plain")
	want := describe(t, admin, "plain")
	exec(t, admin, `create schema shadow;
		create table shadow.pg_publication_tables (pubname name, schemaname name);
		create table shadow.pg_class (oid oid);
		create table shadow.queues (x int);
		create table public.schema_version (version varchar(50), success boolean)`)
	for i, settings := range []map[string]string{
		{"search_path": ""},
		{"search_path": "shadow, pg_catalog"},
		{"search_path": "nowhere"},
		{"TimeZone": "Pacific/Kiritimati", "DateStyle": "German, DMY", "IntervalStyle": "sql_standard"},
		{"TimeZone": "America/St_Johns", "DateStyle": "SQL, MDY", "bytea_output": "escape", "extra_float_digits": "-15"},
		{"standard_conforming_strings": "off", "quote_all_identifiers": "on", "transform_null_equals": "on"},
		{"statement_timeout": "3600000", "lock_timeout": "1", "idle_in_transaction_session_timeout": "60000"},
		{"synchronous_commit": "off", "default_transaction_isolation": "serializable", "default_transaction_deferrable": "on"},
	} {
		t.Run(fmt.Sprint(settings), func(t *testing.T) {
			t.Parallel()
			pool := connect(t, address, func(c *pgxpool.Config) {
				for name, value := range settings {
					c.ConnConfig.RuntimeParams[name] = value
				}
			})
			name := fmt.Sprintf("odd_%d", i)
			report := migrate(t, pool, name)
			require.Empty(t, report.Publication)
			require.Empty(t, migrate(t, pool, name).Applied)
			require.NoError(t, migrations.Check(t.Context(), pool, name))
			require.Equal(t, renamed(want, "plain", name), describe(t, admin, name))
		})
	}
}

// B39: a statement_timeout that is too short for a look is named, with the remedy.
func TestB39AShortStatementTimeoutIsNamed(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	admin := connect(t, address)
	migrate(t, admin, "one")
	tx, err := admin.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), "lock table one.schema_version") // a look takes as long as that is held
	require.NoError(t, err)
	hasty := connect(t, address, setting("statement_timeout", "300"))
	require.ErrorContains(t, migrations.Check(t.Context(), hasty, "one"), "statement_timeout of this role, database or address is too short")
}

func TestTwoSchemasOfOneDatabaseDoNotMeet(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	pool := connect(t, address)
	migrate(t, pool, "one")
	want := describe(t, pool, "one")

	// A migration of another schema does not block.
	thaw := freeze(t, address, "one")
	report := migrate(t, pool, "two")
	require.Len(t, report.Applied, report.Latest)
	require.NoError(t, thaw())

	exec(t, pool, "insert into two.tenants values ('acme', 1)")
	require.Zero(t, value[int](t, pool, "select count(*) from one.tenants"))
	require.Equal(t, "one_wake two_wake", value[string](t, pool, "select string_agg(pubname, ' ' order by pubname) from pg_publication"))
	require.Zero(t, value[int](t, pool, `select count(*) from pg_publication_tables where pubname <> schemaname || '_wake'`))

	exec(t, pool, "drop schema two cascade")
	require.Equal(t, want, describe(t, pool, "one"))
	require.NoError(t, migrations.Check(t.Context(), pool, "one"))
}

// Migrate takes the names that an engine takes, and no other.
func TestNamesOfSchemas(t *testing.T) {
	t.Parallel()
	pool := fresh(t)
	for _, name := range []string{"select", "_", "a1", strings.Repeat("x", migrations.SchemaBytesMax)} {
		require.NoError(t, troupe.Config{Schema: name}.Validate())
		report := migrate(t, pool, name)
		require.Empty(t, report.Publication, name)
		require.Len(t, report.Applied, report.Latest, name)
		require.Empty(t, migrate(t, pool, name).Applied, name)
		require.NoError(t, migrations.Check(t.Context(), pool, name), name)
	}
	for _, name := range []string{
		"nul\x00", "Shop", "two words", `a"b`, "a.b", "it's", "größe", "{schema}", `back\slash`, "$1", "1a", "a\n",
		"pg_mine", strings.Repeat("x", migrations.SchemaBytesMax+1),
	} {
		_, err := migrations.Migrate(t.Context(), pool, name)
		require.ErrorContains(t, err, ": use ", name)
		require.Error(t, troupe.Config{Schema: name}.Validate(), name)
	}
	_, err := migrations.Migrate(t.Context(), pool, "")
	require.ErrorContains(t, err, ": use up to 40 lower-case letters")
}
