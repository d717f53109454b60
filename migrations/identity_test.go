package migrations

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// A schema whose tables are all published, and have rows, is migrated between two
// transactions of its users. Deletes, which were refused before, succeed then in every
// table.
func TestRowsLeavePublishedTables(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool, err := pgxpool.New(ctx, pgtest.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	exec := func(sql string) {
		t.Helper()
		_, err := pool.Exec(ctx, sql)
		require.NoError(t, err, sql)
	}
	require.NoError(t, withSession(ctx, pool, DefaultSchema, func(s *session) error {
		at := slices.IndexFunc(s.migrations, func(m migration) bool { return m.name == "0009_replica_identity" })
		require.Positive(t, at)
		s.migrations = s.migrations[:at]
		_, err := s.apply(ctx)
		return err
	}))
	exec(`create table troupe.task_events_7 partition of troupe.task_events for values from ('2000-01-01') to ('2000-01-02');
		create table troupe.run_history_2_8 partition of troupe.run_history_2 for values from ('2000-01-01') to ('2000-01-02');
		create publication everything for all tables;
		insert into troupe.task_events (run_id, step, kind, n, at)
			select gen_random_uuid(), 0, 1, 1, at from unnest(array[now(), '2000-01-01', '1999-01-01']) at;
		insert into troupe.task_events_kept select * from troupe.task_events`)
	tables := []string{"task_events", "task_events_kept", "task_events_default", "task_events_7", "run_history", "run_history_2_8"}
	for _, table := range tables {
		_, err := pool.Exec(ctx, "delete from troupe."+table)
		require.ErrorContains(t, err, "does not have a replica identity")
	}

	reader, err := pool.Begin(ctx)
	require.NoError(t, err)
	_, err = reader.Exec(ctx, "select from troupe.task_events")
	require.NoError(t, err)
	migrated := make(chan error, 1)
	go func() {
		_, err := Migrate(ctx, pool, DefaultSchema)
		migrated <- err
	}()
	require.Eventually(t, func() bool {
		var waits bool
		err := pool.QueryRow(ctx, `select exists (select from pg_locks where not granted and mode = 'AccessExclusiveLock'
			and relation = 'troupe.task_events'::regclass)`).Scan(&waits)
		return err == nil && waits
	}, 30*time.Second, time.Millisecond)
	exec("insert into troupe.task_events (run_id, step, kind, n, at) values (gen_random_uuid(), 0, 1, 1, now())")
	require.NoError(t, reader.Rollback(context.WithoutCancel(ctx)))
	require.NoError(t, <-migrated)
	for _, table := range tables {
		exec("delete from troupe." + table)
	}
}
