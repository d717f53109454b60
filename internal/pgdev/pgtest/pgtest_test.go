package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, map[string]string{"work_mem": "5MB"}) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	return conn
}

func value(t *testing.T, conn *pgx.Conn, query string) string {
	t.Helper()
	var v string
	require.NoError(t, conn.QueryRow(t.Context(), query).Scan(&v))
	return v
}

func TestEachDatabaseIsFreshAndOnTheSharedServer(t *testing.T) {
	t.Parallel()
	first, second := connect(t, pgtest.Database(t)), connect(t, pgtest.Database(t))
	require.NotEqual(t, value(t, first, "select current_database()"), value(t, second, "select current_database()"))
	require.Equal(t, value(t, first, "show port"), value(t, second, "show port"))
	require.Equal(t, "logical", value(t, first, "show wal_level"))
}

func TestADatabaseInUseIsDroppedWithItsSlots(t *testing.T) { //nolint:tparallel // the end of its subtest is what it is about
	t.Parallel()
	observer := connect(t, pgtest.Database(t))
	var name string
	t.Run("user", func(t *testing.T) {
		conn := connect(t, pgtest.Database(t)) // never closed
		name = value(t, conn, "select current_database()")
		value(t, conn, "select slot_name::text from pg_create_logical_replication_slot('kept_"+name[len(name)-4:]+"', 'pgoutput')")
		value(t, conn, "select slot_name::text from pg_create_logical_replication_slot('temp_"+name[len(name)-4:]+"', 'pgoutput', true)")
	})
	require.Equal(t, "0", value(t, observer, "select count(*)::text from pg_database where datname = '"+name+"'"))
	require.Equal(t, "0", value(t, observer, "select count(*)::text from pg_replication_slots where database = '"+name+"'"))
}

func TestAPrivateServerHasItsOwnSettingsAndCanBeKilled(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, map[string]string{"wal_level": "replica"})
	require.Equal(t, "replica", value(t, connect(t, server.URL("")), "show wal_level"))
	require.NoError(t, server.Kill())
	require.NoError(t, server.Restart(t.Context()))
	require.Equal(t, "replica", value(t, connect(t, server.URL("")), "show wal_level"))
}

func TestSettingsGivenToMainReachTheSharedServer(t *testing.T) {
	t.Parallel()
	require.Equal(t, "5MB", value(t, connect(t, pgtest.Database(t)), "show work_mem"))
}
