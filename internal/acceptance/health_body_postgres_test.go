package acceptance

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// B44: the answer of a probe names no address, no database and no role, although the
// server's errors do.
func TestB44ProbesNameNoAddressAndNoRole(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, map[string]string{"wal_level": "logical", "max_wal_senders": "0"})
	url, err := server.CreateDatabase(t.Context(), "shopdata")
	require.NoError(t, err)
	admin, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = admin.Close(context.WithoutCancel(t.Context())) }()
	exec := func(sql string) {
		t.Helper()
		_, err := admin.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec("create role shopkeeper superuser login password 'geheim'")
	pool := migratedPool(t, url, func(config *pgxpool.Config) {
		config.ConnConfig.User, config.ConnConfig.Password = "shopkeeper", "geheim"
	})
	p := probe(t, startedOn(t, pool))
	startedOn(t, pool) // a pod that is alone reads no stream
	says := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			_, ready := p.get("/readyz")
			_, live := p.get("/livez")
			bodies, err := json.Marshal([]troupe.Health{ready, live})
			require.NoError(t, err)
			for _, secret := range []string{admin.Config().Host, "127.0.0.1", "localhost", "shop", "geheim"} {
				require.NotContains(t, string(bodies), secret)
			}
			return live.Live && strings.Contains(ready.Reason, want) && strings.Contains(live.Reason, want)
		}, 30*time.Second, 20*time.Millisecond, want)
	}
	cut := func(how string) {
		t.Helper()
		exec("alter role shopkeeper " + how)
		exec("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'shopkeeper'")
	}
	p.until(http.StatusOK, time.Second)
	says("raise max_wal_senders or max_connections (a restart) (SQLSTATE 53300)")
	cut("nologin")
	says("the server does not let the engine's role in (SQLSTATE 28000)")
	cut("login password 'other'")
	says("the server does not let the engine's role in (SQLSTATE 28P01)")
	cut("password 'geheim' connection limit 0 nosuperuser")
	says("the server lacks memory, room, locks or connections (SQLSTATE 53300)")
	require.NoError(t, server.Kill())
	says("the database does not answer")
}

// A pod whose lease ran out for a cause that the database names says it at once.
func TestALeaseThatRanOutHasACause(t *testing.T) {
	t.Parallel()
	pool := migratedPool(t, pgtest.Database(t), nil)
	p := probe(t, startedOn(t, pool))
	p.until(http.StatusOK, time.Second)
	_, err := pool.Exec(t.Context(), "alter schema troupe rename to away")
	require.NoError(t, err)
	p.until(http.StatusServiceUnavailable, 6*time.Second)
	_, h := p.get("/readyz")
	require.Contains(t, h.Reason, "the pod's lease has run out")
	require.Contains(t, h.Reason, "the schema's tables are not those of this program")
	_, err = pool.Exec(t.Context(), "alter schema away rename to troupe")
	require.NoError(t, err)
	p.until(http.StatusOK, 15*time.Second)
}
