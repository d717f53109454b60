package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/cluster/postgres"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// A server that shuts down waits until all that it has sent is confirmed, and nothing
// beyond it: a stream whose last message was a commit holds it up for no longer.
func TestAStreamDoesNotKeepTheServerFromShuttingDown(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, map[string]string{"wal_level": "logical", "autovacuum": "off"})
	if server.Foreign() {
		t.Skip("the server was not started by this test: it is not stopped")
	}
	w := newWorld(t, server.URL("postgres"), "troupe")
	s := stream(t, w.adapter(t, 1, func(c *postgres.Config) { c.StatusInterval = 20 * time.Millisecond }))
	w.exec(t, enqueue, 100, 1)
	require.Len(t, s.next(t), 1)
	eventually(t, "the commit is confirmed", func() bool {
		return w.count(t, "select count(*) from pg_replication_slots where confirmed_flush_lsn >= pg_current_wal_flush_lsn()") == 1
	})
	require.Zero(t, w.count(t, "select count(*) from pg_stat_replication where write_lsn > sent_lsn"), "confirmed, and never sent")
	w.pool.Close()
	began := time.Now()
	require.NoError(t, server.Stop(t.Context()))
	pgtest.Within(t, 9*time.Second, time.Since(began), "a stop of the server (after ten seconds it is stopped hard)")
	require.Error(t, s.end(t))
}

// While the sender of a stream decodes a large transaction of another session, it sends
// only keepalives. Pings say how far the log is.
func TestAStreamThatIsBehindEnds(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	a := w.adapter(t, 1, func(c *postgres.Config) { c.StatusInterval = 50 * time.Millisecond })
	h, s := listen(t, a), stream(t, a)
	w.exec(t, "select pg_notify($1, '1 7 p5,1,2,0,0 w'||(pg_current_wal_flush_lsn() - '0/0' + 1e9))", postgres.Channel(w.schema))
	require.NotNil(t, h.next(t).Ping)
	err := s.end(t)
	require.ErrorContains(t, err, "the stream is behind the server's log")
	require.NotErrorIs(t, err, cluster.ErrStreamUnavailable, "a new one begins behind what keeps this one")
	next := stream(t, a)
	w.exec(t, enqueue, 100, 1)
	require.Len(t, next.next(t), 1)
}

// Pings are a part of the log themselves: a stream comes to each of them.
func TestAStreamThatHearsPingsIsNotBehind(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	a := w.adapter(t, 1, func(c *postgres.Config) { c.StatusInterval = 400 * time.Millisecond })
	h, s, leader := listen(t, a), stream(t, a), campaign(t, a)
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for range 25 {
		require.NoError(t, leader.Ping(t.Context(), cluster.Ping{Mode: cluster.ModeStream, Pods: 1}))
		require.NotNil(t, h.next(t).Ping)
		select {
		case err := <-s.done:
			require.NoError(t, err)
		case <-ticker.C:
		}
	}
}
