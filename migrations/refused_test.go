package migrations_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// refused requires that neither Migrate nor Check accept the schema, and that
// both say why and name the remedy.
func refused(t *testing.T, pool *pgxpool.Pool, kind error, texts ...string) {
	t.Helper()
	_, err := migrations.Migrate(t.Context(), pool, schema)
	for _, err := range []error{err, migrations.Check(t.Context(), pool, schema)} {
		require.ErrorIs(t, err, kind)
		for _, text := range texts {
			require.ErrorContains(t, err, text)
		}
	}
}

func TestB39ANewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	pool := fresh(t)
	latest := migrate(t, pool, schema).Latest
	exec(t, pool, "insert into troupe.schema_version (version, name) values ($1, 'of the future')", latest+1)
	before := describe(t, pool, schema)

	refused(t, pool, migrations.ErrNewer, fmt.Sprintf("at version %d", latest+1), "upgrade the program")
	_, err := migrations.Status(t.Context(), pool, schema)
	require.ErrorIs(t, err, migrations.ErrNewer)
	require.Equal(t, before, describe(t, pool, schema))
}

func TestB39AForeignSchemaIsRefused(t *testing.T) {
	t.Parallel()
	for name, objects := range map[string]string{
		"orders":         "create table troupe.orders (id int)",
		"totals":         "create view troupe.totals as select 1",
		"numbers":        "create sequence troupe.numbers",
		"mood":           "create type troupe.mood as enum ('good')",
		"pair":           "create type troupe.pair as (a int, b int)",
		"email":          "create domain troupe.email as text",
		"answer":         "create function troupe.answer() returns int language sql return 42",
		"tasks":          "create table troupe.tasks (id int)",
		"schema_version": "create table troupe.schema_version (version varchar(50), success boolean)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := fresh(t)
			exec(t, pool, "create schema troupe; "+objects)
			before := describe(t, pool, schema)
			texts := []string{fmt.Sprintf("troupe holds %q", name), "name a schema of troupe's own"}
			refused(t, pool, migrations.ErrForeign, texts...)
			_, err := migrations.Status(t.Context(), pool, schema)
			require.ErrorIs(t, err, migrations.ErrForeign)
			require.ErrorContains(t, err, texts[0])
			require.Equal(t, before, describe(t, pool, schema), "nothing was added")
		})
	}
}

// Tables that a rename took away are not made once more beside themselves.
func TestB39ASchemaThatWasRenamedIsRefused(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]string{"nothing in its place": "", "an empty schema in its place": "create schema troupe"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := fresh(t)
			latest := migrate(t, pool, schema).Latest
			exec(t, pool, `alter schema troupe rename to "Old"; `+made)
			texts := []string{"carries the tables of Old", `alter schema "Old" rename to troupe`, "drop the publication"}
			refused(t, pool, migrations.ErrRenamed, texts...)
			_, err := migrations.Status(t.Context(), pool, schema)
			require.ErrorIs(t, err, migrations.ErrRenamed)
			require.Zero(t, value[int](t, pool, "select count(*) from pg_tables where schemaname = 'troupe'"))

			exec(t, pool, `drop schema if exists troupe; alter schema "Old" rename to troupe`)
			require.Equal(t, latest, migrate(t, pool, schema).Version)
			exec(t, pool, `alter schema troupe rename to "Old"; drop publication troupe_wake`)
			require.Equal(t, latest, migrate(t, pool, schema).Version, "without the renamed schema new tables are made")
		})
	}
}

func TestB39AForeignPublicationIsLeftAlone(t *testing.T) {
	t.Parallel()
	pool := fresh(t)
	exec(t, pool, "create table public.orders (id int primary key); create publication troupe_wake for table public.orders")
	report := migrate(t, pool, schema)
	require.Equal(t, report.Latest, report.Version)
	require.Contains(t, report.Publication, "carries tables that are not troupe's (rename it)")
	require.Equal(t, "orders", value[string](t, pool, "select string_agg(tablename, ' ') from pg_publication_tables"))

	exec(t, pool, "alter publication troupe_wake rename to orders_feed")
	require.Empty(t, migrate(t, pool, schema).Publication)
}

func TestAChangedPublicationIsMended(t *testing.T) {
	t.Parallel()
	pool := fresh(t)
	migrate(t, pool, schema)
	for _, change := range []string{"drop table troupe.ready_queue", "set (publish = 'insert, delete')"} {
		exec(t, pool, "alter publication troupe_wake "+change)
		status, err := migrations.Status(t.Context(), pool, schema)
		require.NoError(t, err)
		require.Contains(t, status.Publication, "missing, incomplete, or carries more")
		require.Empty(t, migrate(t, pool, schema).Publication)
		require.Equal(t, 4, value[int](t, pool, "select count(*) from pg_publication_tables where pubname = 'troupe_wake'"))
		require.False(t, value[bool](t, pool, "select pubdelete from pg_publication where pubname = 'troupe_wake'"))
	}
}

func TestB39ADatabaseInSQLASCIIIsRefused(t *testing.T) {
	t.Parallel()
	admin := fresh(t)
	name := value[string](t, admin, "select left(current_database(), 50) || '_ascii'")
	quoted := pgx.Identifier{name}.Sanitize()
	exec(t, admin, "create database "+quoted+" encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C' template template0")
	pool := connect(t, admin.Config().ConnString(), func(c *pgxpool.Config) { c.ConnConfig.Database = name })
	refused(t, pool, migrations.ErrServer, name, "SQL_ASCII", "encoding 'UTF8'")
	pool.Close()
	exec(t, admin, "drop database "+quoted)
}

// TestB39DatabasesOfOtherEncodings: texts of the migrations and statements are in none but
// ASCII, so that every encoding has their characters.
func TestB39DatabasesOfOtherEncodings(t *testing.T) {
	t.Parallel()
	admin := fresh(t)
	for _, encoding := range []string{"LATIN1", "KOI8R", "EUC_JP"} {
		name := value[string](t, admin, "select left(current_database(), 50) || '_"+strings.ToLower(encoding)+"'")
		quoted := pgx.Identifier{name}.Sanitize()
		exec(t, admin, "create database "+quoted+" encoding '"+encoding+"' lc_collate 'C' lc_ctype 'C' template template0")
		pool := connect(t, admin.Config().ConnString(), func(c *pgxpool.Config) { c.ConnConfig.Database = name })
		require.NotEmpty(t, migrate(t, pool, schema).Applied)
		pool.Close()
		exec(t, admin, "drop database "+quoted)
	}
}

func TestB39ReadOnlySessionsAreRefused(t *testing.T) {
	t.Parallel()
	admin := connect(t, pgtest.Database(t), setting("default_transaction_read_only", "off"))
	address, role := ordinary(t, admin)
	database := "database " + pgx.Identifier{value[string](t, admin, "select current_database()")}.Sanitize()
	exec(t, admin, "grant create on "+database+" to "+role)
	for _, on := range []string{"role " + role, database} {
		exec(t, admin, "alter "+on+" set default_transaction_read_only = on")
		pool := connect(t, address)
		refused(t, pool, migrations.ErrServer, "read-only", "turn default_transaction_read_only off")
		_, err := migrations.Status(t.Context(), pool, schema)
		require.NoError(t, err, "looking needs no writes")
		exec(t, admin, "alter "+on+" reset default_transaction_read_only")
	}
	require.Empty(t, migrate(t, connect(t, address), schema).Publication)
}

func TestB39AHotStandbyIsRefused(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, nil)
	pool := connect(t, server.URL(""))
	report := migrate(t, pool, schema)
	folder := value[string](t, pool, "show data_directory")
	exec(t, pool, "copy (select '') to '"+folder+"/standby.signal'") // recovers until it is promoted
	require.NoError(t, server.Restart(t.Context()))
	standby := connect(t, server.URL(""))
	require.True(t, value[bool](t, standby, "select pg_is_in_recovery()"))

	refused(t, standby, migrations.ErrServer, "hot standby", "connect to the primary", "target_session_attrs=read-write")
	status, err := migrations.Status(t.Context(), standby, schema)
	require.NoError(t, err, "looking works there")
	require.Equal(t, report.Latest, status.Version)
}

func TestAServerThatIsAwayIsAnError(t *testing.T) {
	t.Parallel()
	pool := connect(t, "postgres://unknown:secret-word@127.0.0.1:1/none?connect_timeout=1")
	_, err := migrations.Migrate(t.Context(), pool, schema)
	require.ErrorContains(t, err, "migrate schema troupe: connect:")
	require.NotContains(t, err.Error(), "secret-word")
}
