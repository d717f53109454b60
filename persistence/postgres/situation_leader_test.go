package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	cluster "github.com/troupe-dev/troupe/cluster/postgres"
	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// TestSituationTellsWhetherAPodLeads: the row of the epoch keeps its holder when that
// has lost its session, and only its session can hold the lock for it.
func TestSituationTellsWhetherAPodLeads(t *testing.T) {
	t.Parallel()
	k := newFixture(schemas(t)(t), storetest.Nap(time.Hour))
	run := k.start(storetest.Nap(time.Hour), "a", 1)[0]
	k.finish(k.join(time.Hour))
	pod := k.join(time.Hour)
	_ = k.bump(pod)
	k.exec("update {schema}.durable_timers set wake_at = wake_at - interval '2 hours'")
	lead := func(name string) *pgx.Conn {
		config := k.user.Config().ConnConfig
		config.RuntimeParams["application_name"] = name
		conn, err := pgx.ConnectConfig(k.ctx, config)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		_, err = conn.Exec(k.ctx, "select pg_advisory_lock($1)", cluster.LeaderKey(k.store.Schema))
		require.NoError(t, err)
		return conn
	}
	why := func() explain.Reason {
		s, err := k.store.Situation(k.ctx, "a", run)
		require.NoError(t, err)
		return explain.Explain(s)[0]
	}
	require.Contains(t, why().Text, "no pod leads")

	other := lead("psql")
	pid := other.PgConn().PID()
	require.Contains(t, why().Text, fmt.Sprintf("no pod leads: pid %d (psql) holds the leader's lock", pid))
	require.Contains(t, why().Remedy, fmt.Sprintf("pg_terminate_backend(%d)", pid))
	_, err := other.Exec(k.ctx, "select pg_advisory_unlock_all()")
	require.NoError(t, err)

	leader := lead(fmt.Sprintf("troupe leader %s %d", k.store.Schema, pod))
	pid = leader.PgConn().PID()
	require.Contains(t, why().Text, "and the leader, ")
	s, err := k.store.Situation(k.ctx, "a", run)
	require.NoError(t, err)
	require.Equal(t, pid, uint32(s.LeaderLock.PID))
	require.Positive(t, s.LeaderLock.Silent)
	require.Less(t, s.LeaderLock.Silent, time.Minute)

	k.exec("update {schema}.pods set dead = true where id = $1", pod) // its session is still there
	_ = k.join(time.Hour)
	require.Contains(t, why().Text, fmt.Sprintf("no pod leads: pid %d (troupe leader ", pid))
}
