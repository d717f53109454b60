package postgres_test

import (
	"context"
	_ "embed"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

//go:embed sql/visible.sql
var visibleSQL string

func TestNoWakeIsEarly(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	s := stream(t, w.adapter(t, 1))
	looker, err := pgx.Connect(t.Context(), w.url) // quicker than a pool
	require.NoError(t, err)
	insert := strings.ReplaceAll(enqueue, "{schema}", w.schema)
	for i := range 500 {
		before := w.count(t, "select count(*) from troupe.ready_queue")
		inserted := make(chan error, 1)
		go func() {
			_, err := w.pool.Exec(t.Context(), insert, 100, 1)
			inserted <- err
		}()
		s.next(t)
		var seen int
		require.NoError(t, looker.QueryRow(t.Context(), "select count(*) from troupe.ready_queue").Scan(&seen))
		require.Equal(t, before+1, seen, "rows seen after wake %d", i)
		require.NoError(t, <-inserted)
	}
}

func TestVisibleTransactions(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	var opened []pgx.Tx
	var ids []int64 // 32 bits each
	for range 3 {
		tx, err := w.pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
		var id int64
		require.NoError(t, tx.QueryRow(t.Context(), "select pg_current_xact_id()::text::bigint & 4294967295").Scan(&id))
		opened, ids = append(opened, tx), append(ids, id)
	}
	looker, err := pgx.Connect(t.Context(), w.url)
	require.NoError(t, err)
	visible := func(ids ...int64) (yes bool) {
		require.NoError(t, looker.QueryRow(t.Context(), visibleSQL, ids).Scan(&yes))
		return yes
	}
	require.True(t, visible(), "none")
	for i := range ids {
		require.False(t, visible(ids[i]), "open")
	}
	require.NoError(t, opened[1].Commit(t.Context()))
	require.True(t, visible(ids[1]))
	require.False(t, visible(ids[1], ids[0]))
	require.False(t, visible(ids[2], ids[1]))
	require.NoError(t, opened[0].Commit(t.Context()))
	require.NoError(t, opened[2].Commit(t.Context()))
	require.True(t, visible(ids...))
}

// A commit that waits for a standby is on disk and in the stream, and no session
// sees it. A wake that comes too early is better than none.
func TestACommitThatIsNotSeenWakesAfterAWhile(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, map[string]string{
		"wal_level": "logical", "synchronous_standby_names": "absent", "synchronous_commit": "local",
	})
	w := newWorld(t, server.URL(""), "troupe")
	s := stream(t, w.adapter(t, 1))
	writer, err := pgx.Connect(t.Context(), w.url)
	require.NoError(t, err)
	_, err = writer.Exec(t.Context(), "set synchronous_commit = on")
	require.NoError(t, err)
	start := time.Now()
	committed := make(chan error, 1)
	go func() {
		_, err := writer.Exec(t.Context(), "insert into troupe.intake (run_id) values (gen_random_uuid())")
		committed <- err
	}()
	require.Len(t, s.next(t), 1)
	require.GreaterOrEqual(t, time.Since(start), 200*time.Millisecond)
	require.Empty(t, committed, "the writer still waits")
	require.Zero(t, w.count(t, "select count(*) from troupe.intake"))
	w.exec(t, "select pg_cancel_backend($1)", writer.PgConn().PID())
	require.NoError(t, <-committed)
}
