package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/cluster/postgres"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// Where any name may be a standby's, a stream is one to the server. It must not
// acknowledge commits that no standby has, as they would be lost with the server. Two
// of them are no two standbys, either.
func TestAStreamIsNoStandby(t *testing.T) {
	t.Parallel()
	for names, shown := range map[string]string{"*": "first", "ANY 1 (*)": "any", "2 (*)": "two"} {
		t.Run(shown, func(t *testing.T) {
			t.Parallel()
			w := synchronousWorld(t, names)
			quick := func(c *postgres.Config) { c.StatusInterval = 50 * time.Millisecond } // a busy machine is not silence, which is ten of them
			first, second := stream(t, w.adapter(t, 1, quick)), stream(t, w.adapter(t, 2, quick))
			w.exec(t, enqueue, 100, 1)
			require.Len(t, first.next(t), 1)
			require.Len(t, second.next(t), 1)

			limited, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := w.pool.Exec(limited, "set local synchronous_commit = on; create table acknowledged ()")
			require.ErrorIs(t, err, context.DeadlineExceeded, "a commit that no standby has")
			require.Equal(t, 2, w.count(t, "select count(*) from pg_stat_replication where write_lsn is not null and flush_lsn is null"))
		})
	}
}

// What the server keeps for a stream that may not tell it to let go is bounded.
func TestAStreamThatIsCountedAsAStandbyBeginsAnew(t *testing.T) {
	pgtest.FullOnly(t, "a busy machine is silent for longer than a stream may be here")
	t.Parallel()
	w := synchronousWorld(t, "*")
	a := w.adapter(t, 1, func(c *postgres.Config) { c.StatusInterval = 15 * time.Millisecond }) // silence is ten of them
	s := stream(t, a)
	w.exec(t, enqueue, 100, 1)
	require.Len(t, s.next(t), 1)
	err := s.end(t)
	require.ErrorContains(t, err, "name the standbys in synchronous_standby_names")
	require.NotErrorIs(t, err, cluster.ErrStreamUnavailable, "the next one begins at once")
	require.NotNil(t, stream(t, a))
}

// synchronousWorld is one whose commits do not wait for the standbys of that name, in
// its own sessions; there are none.
func synchronousWorld(t *testing.T, names string) world {
	t.Helper()
	server := pgtest.Server(t, map[string]string{"wal_level": "logical", "synchronous_commit": "local"})
	w := newWorld(t, server.URL("postgres"), "troupe")
	w.exec(t, "alter system set synchronous_standby_names = '"+names+"'")
	w.exec(t, "select pg_reload_conf()")
	eventually(t, "the server knows it", func() bool {
		return w.count(t, "select count(*) from pg_settings where name = 'synchronous_standby_names' and setting <> ''") == 1
	})
	return w
}
