package migrations_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/migrations"
)

func TestARoleWithCreateOnTheDatabaseIsEnough(t *testing.T) {
	t.Parallel()
	admin := fresh(t)
	address, role := ordinary(t, admin) // neither superuser nor replication
	database := pgx.Identifier{value[string](t, admin, "select current_database()")}.Sanitize()
	exec(t, admin, "grant create on database "+database+" to "+role)
	pool := connect(t, address)
	report := migrate(t, pool, schema)
	require.Equal(t, report.Latest, report.Version)
	require.Empty(t, report.Publication)
	require.NoError(t, migrations.Check(t.Context(), pool, schema))
	migrate(t, admin, "reference")
	require.Equal(t, describe(t, admin, "reference"), renamed(describe(t, admin, schema), schema, "reference"))
}

func TestB39WithoutCreateOnTheDatabaseTheRemedyIsNamed(t *testing.T) {
	t.Parallel()
	admin := fresh(t)
	address, role := ordinary(t, admin)
	pool := connect(t, address)
	_, err := migrations.Migrate(t.Context(), pool, schema)
	require.ErrorIs(t, err, migrations.ErrRights)
	require.ErrorContains(t, err, "grant create on the database")
	require.ErrorContains(t, err, "create the schema with it as the owner")
	require.ErrorIs(t, migrations.Check(t.Context(), pool, schema), migrations.ErrBehind)

	// An empty schema of another owner is not enough.
	exec(t, admin, "create schema troupe; grant usage on schema troupe to "+role)
	_, err = migrations.Migrate(t.Context(), pool, schema)
	require.ErrorIs(t, err, migrations.ErrRights)
	require.ErrorContains(t, err, "make it the owner of the schema")
}

func TestWithoutTheRightToPublishTheReportSaysSo(t *testing.T) {
	t.Parallel()
	admin := fresh(t)
	address, role := ordinary(t, admin)
	exec(t, admin, "create schema troupe authorization "+role)
	pool := connect(t, address)
	report := migrate(t, pool, schema)
	require.Equal(t, report.Latest, report.Version)
	require.Len(t, report.Applied, report.Latest)
	require.Contains(t, report.Publication, "may not create the publication troupe_wake")
	require.Contains(t, report.Publication, "grant create on the database")
	require.Contains(t, report.Publication, "until then pods hear by notifications and sweeps")
	require.NoError(t, migrations.Check(t.Context(), pool, schema), "an engine works without it")

	again := migrate(t, admin, schema)
	require.Empty(t, again.Applied)
	require.Empty(t, again.Publication, "a role that may has mended it")
	require.Empty(t, migrate(t, pool, schema).Publication)
}

func TestB39ARoleThatMayNotReadTheSchemaIsToldSo(t *testing.T) {
	t.Parallel()
	admin := fresh(t)
	migrate(t, admin, schema)
	address, role := ordinary(t, admin)
	refused(t, connect(t, address), migrations.ErrRights, "use the role that owns the schema", "usage on the schema")

	exec(t, admin, "grant usage on schema troupe to "+role)
	refused(t, connect(t, address), migrations.ErrRights, "all rights on its tables")

	exec(t, admin, "grant all on all tables in schema troupe to "+role+"; grant all on all sequences in schema troupe to "+role)
	require.NoError(t, migrations.Check(t.Context(), connect(t, address), schema))
	require.Empty(t, migrate(t, connect(t, address), schema).Applied)
}

// A role that was granted what there was before a migration is told at its start
// what it lacks now, and not by its leader in the middle of a takeover.
func TestB39ATableThatIsNotGrantedIsNamed(t *testing.T) {
	t.Parallel()
	admin := fresh(t)
	address, role := ordinary(t, admin)
	migrate(t, admin, schema)
	exec(t, admin, "grant usage on schema troupe to "+role+"; grant all on all tables in schema troupe to "+role)
	pool := connect(t, address)
	exec(t, admin, "create table troupe.runs_backup (id int)") // a foreign table
	require.NoError(t, migrations.CheckRights(t.Context(), pool, schema))
	exec(t, admin, "revoke insert on troupe.deaths from "+role)
	err := migrations.CheckRights(t.Context(), pool, schema)
	require.ErrorIs(t, err, migrations.ErrRights)
	require.ErrorContains(t, err, "deaths")
	require.ErrorContains(t, err, "grant all on all tables in schema")
}

// A reader reads the views and nothing else of the schema, and changes nothing.
func TestAReaderReadsTheViewsAndNothingElse(t *testing.T) {
	t.Parallel()
	admin := fresh(t)
	address, role := ordinary(t, admin)
	name := strings.Trim(role, `"`)
	err := migrations.Grant(t.Context(), admin, schema, migrations.RoleReader, name)
	require.ErrorIs(t, err, migrations.ErrBehind)
	migrate(t, admin, schema)
	require.NoError(t, migrations.Grant(t.Context(), admin, schema, migrations.RoleReader, name))
	require.NoError(t, migrations.Grant(t.Context(), admin, schema, migrations.RoleReader, name), "twice is safe")

	reader := connect(t, address)
	readable := value[[]string](t, reader, `select array_agg(c.relname::text order by c.relname) from pg_class c
		where c.relnamespace = 'troupe'::regnamespace and c.relkind in ('r', 'p', 'v', 'S')
			and (case when c.relkind = 'S' then has_sequence_privilege(c.oid, 'usage, select, update')
				else has_table_privilege(c.oid, 'select, insert, update, delete, truncate, references, trigger') end
				or has_any_column_privilege(c.oid, 'select, insert, update, references'))`)
	views := []string{"dead_letter_list", "event_list", "run_list", "signal_list", "step_list"}
	require.Equal(t, views, readable)
	for _, view := range views {
		exec(t, reader, "select * from troupe."+view)
		_, err := reader.Exec(t.Context(), "delete from troupe."+view)
		require.Error(t, err)
	}
	for _, sql := range []string{
		"select from troupe.workflow_runs", "select from troupe.every_run", "select from troupe.pod_names",
		"select from troupe.history_of(array[gen_random_uuid()])", "create table troupe.mine ()",
	} {
		_, err := reader.Exec(t.Context(), sql)
		require.ErrorContains(t, err, "permission denied", sql)
	}
}

func TestAGrantThatCannotBeMadeSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, kind, to, want string }{
		{"A b", "reader", "x", "schema"},
		{schema, "owner", "x", `role "owner": there is no such kind: use reader`},
		{schema, "reader", "", `to "": it is no name of a role: use 1 to 63 bytes`},
		{schema, "reader", strings.Repeat("x", 64), "use 1 to 63 bytes"},
	} {
		_, err := migrations.Grants(c.schema, c.kind, c.to)
		require.ErrorContains(t, err, c.want)
	}
	statements, err := migrations.Grants(schema, "reader", `an"alyst; drop`)
	require.NoError(t, err)
	require.Equal(t, `grant usage on schema "troupe" to "an""alyst; drop"`, statements[0])

	admin := fresh(t)
	migrate(t, admin, schema)
	address, role := ordinary(t, admin)
	err = migrations.Grant(t.Context(), admin, schema, "reader", "nobody_of_that_name")
	require.ErrorContains(t, err, "create it first")
	exec(t, admin, "grant usage on schema troupe to "+role+"; grant select on all tables in schema troupe to "+role)
	other := "reader_" + strings.Trim(role, `"`)[5:]
	exec(t, admin, "create role "+other)
	t.Cleanup(func() {
		_, _ = admin.Exec(context.WithoutCancel(t.Context()), "drop owned by "+other+"; drop role "+other)
	})
	err = migrations.Grant(t.Context(), connect(t, address), schema, "reader", other)
	require.ErrorIs(t, err, migrations.ErrRights)
	require.ErrorContains(t, err, "use the role that owns")
}
