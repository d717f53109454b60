package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/cluster/postgres"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// refused reads a stream that is expected not to start.
func refused(t *testing.T, a *postgres.Adapter, remedy string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := a.Read(ctx, func() { t.Error("connected") }, func([]cluster.Wake) {})
	require.ErrorIs(t, err, cluster.ErrStreamUnavailable)
	require.ErrorContains(t, err, remedy)
}

func TestARoleWithoutReplication(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	var role string
	require.NoError(t, w.pool.QueryRow(t.Context(), "select left(current_database(), 50)||'_role'").Scan(&role))
	quoted := pgx.Identifier{role}.Sanitize()
	w.exec(t, "create role "+quoted+" login password '"+role+"'")
	t.Cleanup(func() {
		_, err := w.pool.Exec(context.WithoutCancel(t.Context()), "drop role "+quoted)
		require.NoError(t, err)
	})
	pool, err := pgxpool.New(t.Context(), w.as(t, role))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	ordinary := world{url: w.url, schema: w.schema, pool: pool}
	refused(t, ordinary.adapter(t, 1), "alter role")
	h := listen(t, ordinary.adapter(t, 2)) // the rest works
	require.NoError(t, ordinary.adapter(t, 1).Notify(t.Context(), cluster.Notice{From: 1, Wakes: []cluster.Wake{{Kind: cluster.WakeSubmitted}}}))
	require.Len(t, h.next(t).Wakes, 1)
}

// What refuses every session says nothing of the stream, though its SQLSTATE is that of a
// stream that is refused: a restart with wal_level=logical would mend nothing.
func TestADatabaseThatRefusesSessions(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	config := w.pool.Config().ConnConfig.Copy()
	database := config.Database
	role := database[:min(len(database), 50)] + "_role"
	config.Database = "postgres"
	admin, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	exec := func(sql string) {
		t.Helper()
		_, err := admin.Exec(context.WithoutCancel(t.Context()), sql)
		require.NoError(t, err)
	}
	exec(fmt.Sprintf("create role %s login replication password '%s'", pgx.Identifier{role}.Sanitize(), role))
	t.Cleanup(func() {
		exec("drop role " + pgx.Identifier{role}.Sanitize())
		_ = admin.Close(context.Background())
	})
	pool, err := pgxpool.New(t.Context(), w.as(t, role))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	a := world{url: w.url, schema: w.schema, pool: pool}.adapter(t, 1)
	exec("alter database " + pgx.Identifier{database}.Sanitize() + " with allow_connections false")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = a.Read(ctx, func() { t.Error("connected") }, func([]cluster.Wake) {})
	exec("alter database " + pgx.Identifier{database}.Sanitize() + " with allow_connections true")
	require.ErrorContains(t, err, "not currently accepting connections")
	require.NotErrorIs(t, err, cluster.ErrStreamUnavailable)
}

func TestAMissingPublication(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	w.exec(t, "drop publication "+pgx.Identifier{postgres.Publication(w.schema)}.Sanitize())
	refused(t, w.adapter(t, 1), `publication "troupe_wake" is missing; run the migrations`)
	require.Zero(t, w.slots(t))
}

// A publication that was changed by hand is treated as missing, when the stream is
// opened and while it is read.
func TestAPublicationThatSomebodyChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"inserts": "set (publish = 'truncate')",
		"updates": "set (publish = 'insert, update')",
		"a table": "drop table {schema}.ready_queue",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := freshWorld(t)
			s := stream(t, w.adapter(t, 1, func(c *postgres.Config) { c.StatusInterval = 50 * time.Millisecond }))
			w.exec(t, "alter publication "+pgx.Identifier{postgres.Publication(w.schema)}.Sanitize()+" "+change)
			err := s.end(t)
			require.ErrorIs(t, err, cluster.ErrStreamUnavailable)
			require.ErrorContains(t, err, "it was changed by hand; run the migrations")
			refused(t, w.adapter(t, 2), "run the migrations")

			report, err := migrations.Status(t.Context(), w.pool, w.schema)
			require.NoError(t, err)
			require.Contains(t, report.Publication, "missing, incomplete, or carries more")
			_, err = migrations.Migrate(t.Context(), w.pool, w.schema)
			require.NoError(t, err)
			again := stream(t, w.adapter(t, 3))
			w.exec(t, enqueue, 100, 1)
			require.Len(t, again.next(t), 1)
		})
	}
}

func TestWithoutLogicalDecoding(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, map[string]string{"wal_level": "replica"})
	w := newWorld(t, server.URL(""), "troupe")
	refused(t, w.adapter(t, 1), "wal_level is replica; set wal_level = logical")
}

func TestExhaustedSlotsAndSenders(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, map[string]string{"wal_level": "logical", "max_replication_slots": "1", "max_wal_senders": "1"})
	w := newWorld(t, server.URL(""), "troupe")
	s := stream(t, w.adapter(t, 1))
	refused(t, w.adapter(t, 2), "raise max_wal_senders")
	s.stop()
	require.Error(t, s.end(t))
	eventually(t, "the slot is gone", func() bool { return w.slots(t) == 0 })
	w.exec(t, "select pg_create_physical_replication_slot('somebody_elses')")
	eventually(t, "the other limit", func() bool {
		err := attempt(t, w.adapter(t, 2))
		require.ErrorIs(t, err, cluster.ErrStreamUnavailable)
		return strings.Contains(err.Error(), "raise max_replication_slots")
	})
	w.exec(t, "select pg_drop_replication_slot('somebody_elses')")
	eventually(t, "a stream again", func() bool { return errors.Is(attempt(t, w.adapter(t, 2)), context.Canceled) })
}

// attempt reads a stream and stops it once it flows. A sender counts until its
// process has ended, a moment after its session.
func attempt(t *testing.T, a *postgres.Adapter) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return a.Read(ctx, cancel, func([]cluster.Wake) {})
}

// A server of its own: a slot waits for the writers of all databases.
func TestAnOpenWriterBlocksTheSlotForALimitedTime(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, map[string]string{"wal_level": "logical"})
	w := newWorld(t, server.URL(""), "troupe")
	writer, err := w.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = writer.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = writer.Exec(t.Context(), "insert into troupe.intake (run_id) values (gen_random_uuid())")
	require.NoError(t, err)

	start := time.Now()
	refused(t, w.adapter(t, 1, func(c *postgres.Config) { c.SlotTimeout = 0 }), "waits for a transaction")
	pgtest.Within(t, 2900*time.Millisecond, time.Since(start), "a refusal")
	eventually(t, "no slot and no sender is left", func() bool {
		return w.slots(t) == 0 && w.count(t, "select count(*) from pg_stat_activity where backend_type = 'walsender'") == 0
	})

	require.NoError(t, writer.Commit(t.Context()))
	s := stream(t, w.adapter(t, 1))
	// A transaction that begins to write later delays no wakes.
	later, err := w.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = later.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = later.Exec(t.Context(), "insert into troupe.intake (run_id) values (gen_random_uuid())")
	require.NoError(t, err)
	w.exec(t, enqueue, 100, 1)
	require.Equal(t, cluster.WakeReady, s.next(t)[0].Kind)
}

func TestTheCallersEndIsNotARefusal(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := w.adapter(t, 1).Read(ctx, func() {}, func([]cluster.Wake) {})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, cluster.ErrStreamUnavailable)
}
