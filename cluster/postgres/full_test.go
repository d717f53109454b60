package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/cluster/postgres"
)

// A commit that notifies fails where the server's queue of notifications is full, and
// sessions of another database can fill it. Here the server only says that it is: 8 GB
// do not go into a test.
func TestAFullQueueOfNotificationsFailsNoCommit(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	w.exec(t, "create schema says; create function says.pg_notification_queue_usage() returns float8 language sql as 'select 0.95'")
	config, err := pgxpool.ParseConfig(w.url)
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["search_path"] = "says, pg_catalog"
	w.pool, err = pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(w.pool.Close)
	var l logs
	a := w.adapter(t, 1, func(c *postgres.Config) { c.Logger = l.logger() })
	h, leader := listen(t, a), campaign(t, a)

	require.ErrorContains(t, a.Notify(t.Context(), cluster.Notice{Wakes: []cluster.Wake{{Kind: cluster.WakeSubmitted}}}), "end the session that listens")
	tx, err := w.pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, a.NotifyTx(t.Context(), tx, cluster.Wake{Kind: cluster.WakeSubmitted}))
	require.NoError(t, tx.Commit(t.Context()), "a wake is a hint: it fails no transaction")
	for range 2 {
		require.NoError(t, leader.Ping(t.Context(), cluster.Ping{Mode: cluster.ModeNone}), "its session holds the lock")
	}
	require.Equal(t, 1, l.count("no pod hears the leader"))
	require.Empty(t, h.got)

	w.exec(t, "drop schema says cascade")
	require.NoError(t, leader.Ping(t.Context(), cluster.Ping{Mode: cluster.ModeNone}))
	require.NotNil(t, h.next(t).Ping)
}
