package migrations_test

import (
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
