package doctor

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// TestFindingsOfSettings examines a server on which everything is set wrong.
func TestFindingsOfSettings(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, map[string]string{
		"wal_level": "replica", "max_slot_wal_keep_size": "-1", "max_replication_slots": "1", "max_wal_senders": "0", "fsync": "off",
		"full_page_writes": "off", "max_connections": "12", "superuser_reserved_connections": "3", "autovacuum": "off",
	})
	address, err := server.CreateDatabase(t.Context(), "wrong")
	require.NoError(t, err)
	c := open(t, address)
	c.exec("select pg_create_physical_replication_slot('abandoned', true)")
	c.exec("create table filler as select repeat('x', 1000) from generate_series(1, 3000)")
	limits := usual()
	limits.retained = 1 << 20
	report := c.examine(Options{limits: limits})
	finds(t, report, "durability", Problem, "fsync is off", "crash")
	finds(t, report, "durability", Problem, "full_page_writes is off")
	finds(t, report, "wake", Warning, "wal_level is replica", "set wal_level = logical")
	finds(t, report, "slots", Warning, "all 1 replication slots are in use", "raise max_replication_slots")
	finds(t, report, "slots", Warning, "max_wal_senders is 0")
	finds(t, report, "slots", Warning, "max_slot_wal_keep_size is -1", "fills the disk")
	finds(t, report, "slots", Problem, "slot abandoned keeps", "MB of WAL and is not read", "pg_drop_replication_slot('abandoned')")
	finds(t, report, "connections", Problem, "a pod needs up to 10", "raise max_connections")
	finds(t, report, "dead rows", Problem, "autovacuum is off", "track_counts")
}

// Commits that a standby does not confirm hold up all runs, without a lock.
func TestFindingsOfStandbys(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, nil)
	address, err := server.CreateDatabase(t.Context(), "confirmed")
	require.NoError(t, err)
	c := open(t, address)
	limits := usual()
	limits.confirmed = time.Millisecond
	c.exec("alter system set synchronous_standby_names = 'far_away'")
	c.exec("select pg_reload_conf()")
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		var err error
		for err == nil { // until the session has heard of it, which waits then
			_, err = c.pool.Exec(ctx, "select pg_logical_emit_message(true, 'test', '')")
		}
		ended <- err
	}()
	require.Eventually(t, func() bool {
		for _, f := range c.examine(Options{limits: limits}).Findings {
			if f.Check == "standbys" {
				return true
			}
		}
		return false
	}, 30*time.Second, 10*time.Millisecond)
	finds(t, c.examine(Options{limits: limits}), "standbys", Problem, " to be confirmed by a synchronous standby", `synchronous_standby_names is "far_away"`, "bring the standby back")
	cancel()
	require.Error(t, <-ended)
}

// A role that may do less than an engine needs, and one that may not see.
func TestFindingsOfRights(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, map[string]string{"wal_level": "logical"})
	address, err := server.CreateDatabase(t.Context(), "rights")
	require.NoError(t, err)
	owner := open(t, address)
	owner.exec("create role poor login password 'poor'; grant usage on schema troupe to poor; grant select on all tables in schema troupe to poor")
	poor, err := url.Parse(address)
	require.NoError(t, err)
	poor.User = url.UserPassword("poor", "poor")
	pool, err := pgxpool.New(t.Context(), poor.String())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	report := (&clinic{t, pool, poor.String()}).examine(Options{})
	finds(t, report, "wake", Warning, "the role lacks REPLICATION", "alter role")
	finds(t, report, "rights", Problem, "may not read and write", "tasks", "grant all on all tables")
	finds(t, report, "rights", Warning, "does not own the schema", "grant that one to it")

	owner.exec("create table troupe.task_events_99 (like troupe.task_events including constraints)")
	owner.exec("alter table troupe.task_events attach partition troupe.task_events_99 for values from ('2000-01-01') to ('2000-01-02')")
	owner.exec("alter table troupe.task_events_99 owner to poor")
	finds(t, owner.examine(Options{}), "rights", Problem, "task_events_99: not of the owner", "as poor: alter table troupe.task_events_99 owner to")
	owner.exec("drop table troupe.task_events_99")

	owner.exec("revoke usage on schema troupe from poor")
	report = (&clinic{t, pool, poor.String()}).examine(Options{})
	finds(t, report, "schema", Problem, "lacks a right", "use the role that owns the schema")
}

// Tables of another owner, in a schema of the role's own.
func TestFindingsOfTablesOfAnotherOwner(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, nil)
	address, err := server.CreateDatabase(t.Context(), "owners")
	require.NoError(t, err)
	super := open(t, address)
	super.exec("create role master login password 'master'; alter schema troupe owner to master; grant all on all tables in schema troupe to master")
	master, err := url.Parse(address)
	require.NoError(t, err)
	master.User = url.UserPassword("master", "master")
	pool, err := pgxpool.New(t.Context(), master.String())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	c := &clinic{t, pool, master.String()}
	remedy := "alter table troupe.run_history owner to master; alter table troupe.run_history_0 owner to master"
	report := c.examine(Options{})
	finds(t, report, "rights", Problem, "run_history, run_history_0", "task_events: not of the owner of the schema", remedy)
	for _, f := range report.Findings {
		if f.Check == "rights" && f.Level == Problem {
			_, statements, told := strings.Cut(f.Remedy, ": ")
			require.True(t, told)
			super.exec(statements)
		}
	}
	for _, f := range c.examine(Options{}).Findings {
		require.NotContains(t, f.Text, "not of the owner of the schema")
	}
}

// Databases that cannot hold the tables are said to be so, and the rest is
// examined.
func TestFindingsOfUnsuitableDatabases(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, nil)
	main, err := pgx.Connect(t.Context(), server.URL(""))
	require.NoError(t, err)
	defer func() { _ = main.Close(context.Background()) }()
	for name, test := range map[string]struct {
		make   string
		part   string
		remedy string
	}{
		"ascii":    {`create database ascii encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C' template template0`, "SQL_ASCII", "create database NAME encoding 'UTF8'"},
		"readonly": {`create database readonly`, "read-only", "alter database readonly reset default_transaction_read_only"},
	} {
		_, err := main.Exec(t.Context(), test.make)
		require.NoError(t, err)
		if name == "readonly" {
			_, err = main.Exec(t.Context(), `alter database readonly set default_transaction_read_only = on`)
			require.NoError(t, err)
		}
		pool, err := pgxpool.New(t.Context(), server.URL(name))
		require.NoError(t, err)
		report, err := Examine(t.Context(), pool, Options{Schema: migrations.DefaultSchema, Now: time.Now})
		require.NoError(t, err)
		finds(t, report, "schema", Problem, test.part, test.remedy)
		require.Contains(t, report.Checks, "slots")
		require.NotContains(t, report.Checks, "pods", "there are no tables to look at")
		pool.Close()
	}
}

// The version of the tables is not waited for without end.
func TestAnExaminationDoesNotWaitForTheVersion(t *testing.T) {
	t.Parallel()
	c := open(t, migrated(t))
	c.hold("lock table troupe.schema_version in access exclusive mode")
	report := c.examine(Options{})
	finds(t, report, "schema", Problem, "could not be read within 3 s", "the check locks")
	require.Contains(t, report.Checks, "pods", "the rest is looked at")
}

// Each reason why a server cannot hold the tables has a remedy of its own.
func TestRemediesForUnsuitableServers(t *testing.T) {
	t.Parallel()
	require.Contains(t, remedyFor(true, false, false, "d", "r"), "PostgreSQL 15")
	require.Contains(t, remedyFor(false, true, false, "d", "r"), "encoding 'UTF8'")
	require.Contains(t, remedyFor(false, false, true, "d", "r"), "target_session_attrs=read-write")
	require.Contains(t, remedyFor(false, false, false, `"D"`, "r"), `alter role r in database "D" reset`)
}

// A foreign schema is left alone.
func TestFindingsOfAForeignSchema(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), "create schema troupe; create table troupe.schema_version (version varchar(50))")
	require.NoError(t, err)
	finds(t, (&clinic{t: t, pool: pool}).examine(Options{}), "schema", Problem, "not troupe's", "--schema")
}

// A schema that was renamed is not made anew.
func TestFindingsOfARenamedSchema(t *testing.T) {
	t.Parallel()
	c := open(t, migrated(t))
	_, err := c.pool.Exec(t.Context(), "alter schema troupe rename to old")
	require.NoError(t, err)
	finds(t, c.examine(Options{}), "schema", Problem, "alter schema old rename to troupe", "rename it back")
}

// Nothing of an examination writes: it does its work where nothing can be
// written, and a lock keeps it for no longer than half a second a check.
func TestAnExaminationWaitsForNoLock(t *testing.T) {
	t.Parallel()
	c := open(t, migrated(t))
	c.hold("lock table troupe.pods, troupe.parked_tasks in access exclusive mode")
	begun := time.Now()
	report, err := Examine(t.Context(), c.pool, Options{Schema: migrations.DefaultSchema, Now: time.Now, Deep: true})
	require.NoError(t, err)
	pgtest.Within(t, 30*time.Second, time.Since(begun), "an examination beside locks")
	finds(t, report, "pods", Warning, "it could not be looked at", "lock timeout")
	finds(t, report, "promises", Warning, "was not finished", "ask again")
}
