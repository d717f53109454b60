package postgres

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// TestSituationForAnOrdinaryRole: what other roles' sessions do, and since when, is hidden
// from a role without pg_read_all_stats; what they hold is not.
func TestSituationForAnOrdinaryRole(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, nil)
	address, err := server.CreateDatabase(t.Context(), "ordinary")
	require.NoError(t, err)
	user, err := pgxpool.New(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(user.Close)
	k := newFixture(openSchema(t, user, Options{}), storetest.Single())
	k.exec("create role reader login password 'reader'; grant usage on schema {schema} to reader; grant select on all tables in schema {schema} to reader")
	limited, err := url.Parse(address)
	require.NoError(t, err)
	limited.User = url.UserPassword("reader", "reader")
	pool, err := pgxpool.New(t.Context(), limited.String())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	inspector, err := NewInspector(pool, k.store.Schema)
	require.NoError(t, err)

	run := k.start(storetest.Single(), "a", 1)[0]
	k.join(time.Hour)
	k.exec("update {schema}.tasks set queued_at = queued_at - interval '1 minute'")
	for hold, want := range map[string]string{
		`select from {schema}.ready_queue for update`: "rows of ready_queue are passed over, which may be held by pid %d: a statement that this role may not see",
		`lock table {schema}.tasks in share mode`:     "held by a lock of pid %d: a statement that this role may not see",
	} {
		release := k.hold(hold)
		pid := value[int](k.database, `select pid from pg_stat_activity where state = 'idle in transaction' and datname = current_database()`)
		s, err := inspector.Situation(t.Context(), "a", run)
		require.NoError(t, err)
		r := explain.Explain(s)[0]
		require.Equal(t, explain.CauseLocked, r.Cause, r.String())
		require.Contains(t, r.Text, fmt.Sprintf(want, pid))
		release()
	}
}
