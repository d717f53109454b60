package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/cluster/postgres"
)

// Where the server has no connection for a campaign, it is tried on one of the pool's,
// which only the elected pod keeps: each other pod would lose one at every try.
func TestOnlyWhoIsElectedKeepsWhatThePoolGives(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	var role string
	require.NoError(t, w.pool.QueryRow(t.Context(), "select 'full_' || current_database()").Scan(&role))
	quoted := pgx.Identifier{role}.Sanitize()
	w.exec(t, "create role "+quoted+" login password 'secret' connection limit 0")
	t.Cleanup(func() { _, _ = w.pool.Exec(context.Background(), "drop role "+quoted) })
	lent, given, some := 0, 0, true
	a := w.adapter(t, 2, func(c *postgres.Config) {
		c.BeforeConnect = func(_ context.Context, config *pgx.ConnConfig) error {
			config.User, config.Password = role, "secret"
			return nil
		}
		c.Give = func(ctx context.Context, fit func(context.Context, *pgx.Conn) (bool, error)) (*pgx.Conn, error) {
			if !some {
				return nil, nil
			}
			conn, err := w.pool.Acquire(ctx)
			if err != nil {
				return nil, err
			}
			lent++
			fits, err := fit(ctx, conn.Conn())
			if !fits || err != nil {
				conn.Release()
				return nil, err
			}
			given++
			return conn.Hijack(), nil
		}
	})
	first := campaign(t, w.adapter(t, 1))
	for range 3 {
		_, err := a.Campaign(t.Context())
		require.ErrorIs(t, err, cluster.ErrNotElected)
	}
	require.Equal(t, []int{3, 0}, []int{lent, given})
	require.NoError(t, first.Resign(t.Context()))
	some = false
	_, err := a.Campaign(t.Context())
	require.ErrorContains(t, err, "too many connections")
	some = true
	second := campaign(t, a)
	require.Equal(t, int64(2), second.Epoch())
	require.Equal(t, 1, given)
	require.NoError(t, second.Ping(t.Context(), cluster.Ping{}))
	const session = "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'troupe leader troupe 2'"
	require.Equal(t, 1, w.count(t, session))
	_, err = w.adapter(t, 1).Campaign(t.Context())
	require.ErrorIs(t, err, cluster.ErrNotElected)
	require.NoError(t, second.Resign(t.Context()))
	eventually(t, "the session's end", func() bool { return w.count(t, session) == 0 })
}
