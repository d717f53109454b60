package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// probed is an engine whose health is asked for by HTTP.
type probed struct {
	t      *testing.T
	engine *troupe.Engine
	server *httptest.Server
}

func probe(t *testing.T, engine *troupe.Engine) *probed {
	t.Helper()
	p := &probed{t: t, engine: engine, server: httptest.NewServer(engine.HealthHandler())}
	t.Cleanup(p.server.Close)
	return p
}

func (p *probed) get(path string) (int, troupe.Health) {
	p.t.Helper()
	response, err := http.Get(p.server.URL + path)
	require.NoError(p.t, err)
	defer func() { require.NoError(p.t, response.Body.Close()) }()
	var h troupe.Health
	if response.Header.Get("Content-Type") == "application/json" {
		require.NoError(p.t, json.NewDecoder(response.Body).Decode(&h))
	}
	return response.StatusCode, h
}

// until asks until /readyz answers so, and returns how long that took. The limit is
// judged in `make test-full`.
func (p *probed) until(code int, within time.Duration) time.Duration {
	p.t.Helper()
	begun := time.Now()
	for {
		got, _ := p.get("/readyz")
		took := time.Since(begun)
		if got == code {
			pgtest.Within(p.t, within, took, fmt.Sprintf("/readyz to answer %d", code))
			return took
		}
		require.Less(p.t, took, time.Minute, "/readyz answers %d", got)
	}
}

// F37, F20: /readyz reports an outage of the database within two seconds. /livez does
// not restart a process for it.
func TestHealthHandlerLosesAndFindsTheDatabase(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, nil)
	url, err := server.CreateDatabase(t.Context(), "health")
	require.NoError(t, err)
	pool := migratedPool(t, url, nil)
	engine := startedOn(t, pool)
	p := probe(t, engine)
	code, h := p.get("/readyz")
	require.Equal(t, http.StatusOK, code, h.Reason)
	require.True(t, h.Live && h.Ready)
	require.Equal(t, "live", h.Lease)
	require.Positive(t, h.Pod)

	require.NoError(t, server.Kill())
	took := p.until(http.StatusServiceUnavailable, 2*time.Second)
	t.Logf("/readyz is 503 %v after the server was killed", took)
	code, h = p.get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "the database does not answer", h.Reason)
	code, _ = p.get("/livez")
	require.Equal(t, http.StatusOK, code)

	require.NoError(t, server.Restart(t.Context()))
	took = p.until(http.StatusOK, 15*time.Second)
	t.Logf("/readyz is 200 %v after the server answered again", took)
}

// A server that is read only, as providers make it when its disk is nearly full,
// answers pings, but no work can be done.
func TestHealthHandlerNoticesAServerThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, nil)
	url, err := server.CreateDatabase(t.Context(), "readonly")
	require.NoError(t, err)
	pool := migratedPool(t, url, nil)
	p := probe(t, startedOn(t, pool))
	p.until(http.StatusOK, time.Second)
	admin, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = admin.Close(context.WithoutCancel(t.Context())) }()
	turn := func(sql string) {
		t.Helper()
		for _, statement := range []string{"set session characteristics as transaction read write", sql, "select pg_reload_conf()"} {
			_, err := admin.Exec(t.Context(), statement)
			require.NoError(t, err)
		}
	}
	turn("alter system set default_transaction_read_only = on")
	took := p.until(http.StatusServiceUnavailable, 7*time.Second)
	t.Logf("/readyz is 503 %v after the server took no writes", took)
	_, h := p.get("/readyz")
	require.Contains(t, h.Reason, "takes no writes")
	require.Equal(t, "live", h.Lease)
	turn("alter system reset default_transaction_read_only")
	p.until(http.StatusOK, 15*time.Second)
}

// A database that refuses the login answers: the reason is its own.
func TestHealthHandlerSaysWhyALoginIsRefused(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, nil)
	url, err := server.CreateDatabase(t.Context(), "login")
	require.NoError(t, err)
	admin, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = admin.Close(context.WithoutCancel(t.Context())) }()
	exec := func(sql string) {
		t.Helper()
		_, err := admin.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec("create role pods superuser login password 'secret'")
	p := probe(t, startedOn(t, migratedPool(t, url, func(config *pgxpool.Config) { config.ConnConfig.User, config.ConnConfig.Password = "pods", "secret" })))
	p.until(http.StatusOK, time.Second)
	exec("alter role pods nologin")
	exec("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'pods'")
	p.until(http.StatusServiceUnavailable, 2*time.Second)
	_, h := p.get("/readyz")
	require.Contains(t, h.Reason, "refuses the connection")
	require.Contains(t, h.Reason, "the server does not let the engine's role in (SQLSTATE 28000)")
	exec("alter role pods login")
	p.until(http.StatusOK, 15*time.Second)
}

// A network that drops everything ends no connection: only a timeout finds it.
func TestHealthHandlerNoticesSilence(t *testing.T) {
	t.Parallel()
	pool, swallows := swallowingPool(t)
	engine := startedOn(t, pool)
	p := probe(t, engine)
	p.until(http.StatusOK, time.Second)
	swallows.Store(true)
	took := p.until(http.StatusServiceUnavailable, 2*time.Second)
	t.Logf("/readyz is 503 %v after the network fell silent", took)
	asked := time.Now()
	for range 3 {
		code, h := p.get("/livez")
		require.Equal(t, http.StatusOK, code)
		require.False(t, h.Ready)
	}
	pgtest.Within(t, time.Second, time.Since(asked), "three answers of /livez, which wait for no database,")
	for range 2 { // more than one connection is given up
		code, _ := p.get("/readyz")
		require.Equal(t, http.StatusServiceUnavailable, code)
	}
	swallows.Store(false)
	took = p.until(http.StatusOK, 5*time.Second)
	t.Logf("/readyz is 200 %v after new connections got through", took)
}

// swallowingPool returns a pool whose connections drop everything once swallows is
// set.
func swallowingPool(t *testing.T) (pool *pgxpool.Pool, swallows *atomic.Bool) {
	t.Helper()
	swallows = &atomic.Bool{}
	pool = migratedPool(t, pgtest.Database(t), func(config *pgxpool.Config) {
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return &swallowing{Conn: conn, swallows: swallows}, err
		}
	})
	return pool, swallows
}

// swallowing is a connection that drops everything after its first dropped write.
type swallowing struct {
	net.Conn

	swallows *atomic.Bool
	silent   atomic.Bool
}

// Write implements net.Conn.
func (c *swallowing) Write(b []byte) (int, error) {
	if c.swallows.Load() {
		c.silent.Store(true)
	}
	if c.silent.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// F35: without a stream the pod is ready and says what it lacks.
func TestHealthHandlerNamesADegradedWakeSource(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, map[string]string{"wal_level": "replica"})
	url, err := server.CreateDatabase(t.Context(), "degraded")
	require.NoError(t, err)
	pool := migratedPool(t, url, nil)
	first := probe(t, startedOn(t, pool))
	startedOn(t, pool)
	require.Eventually(t, func() bool {
		code, h := first.get("/readyz")
		return code == http.StatusOK && h.Ready && h.Wake == "none" && strings.Contains(h.Degraded, "wal_level") && h.Reason == h.Degraded
	}, 30*time.Second, 50*time.Millisecond)
}

func TestHealthHandlerOfAnEngineThatDoesNotRun(t *testing.T) {
	t.Parallel()
	engine, err := troupe.NewInMemory(troupe.Config{})
	require.NoError(t, err)
	p := probe(t, engine)
	for _, c := range []struct {
		path string
		code int
	}{{"/livez", http.StatusOK}, {"/readyz", http.StatusServiceUnavailable}, {"/health/readyz", http.StatusServiceUnavailable}, {"/", http.StatusNotFound}} {
		code, _ := p.get(c.path)
		require.Equal(t, c.code, code, c.path)
	}
	require.NoError(t, engine.Start(t.Context()))
	code, h := p.get("/health/readyz")
	require.Equal(t, http.StatusOK, code, h.Reason)
	require.NoError(t, engine.Stop(t.Context()))
	code, h = p.get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, h.Reason, "it has stopped")
	response, err := http.Post(p.server.URL+"/readyz", "text/plain", nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusMethodNotAllowed, response.StatusCode)
}

func migratedPool(t *testing.T, url string, adjust func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	if adjust != nil {
		adjust(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
	return pool
}

// startedOn is a pod with one workflow.
func startedOn(t *testing.T, pool *pgxpool.Pool) *troupe.Engine {
	t.Helper()
	engine, err := troupe.New(pool, troupe.Config{Pulse: time.Second, Lease: 4 * time.Second})
	require.NoError(t, err)
	_, err = troupe.Register(engine, single(number))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() {
		ended, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = engine.Stop(ended)
	})
	return engine
}

// Probes on a slow network do not cost the lease, which is renewed on the same
// connection.
func TestProbesOfASlowNetworkCostNoLease(t *testing.T) {
	t.Parallel()
	pgtest.FullOnly(t, "a lease of 4 s must be renewed in time")
	var slow atomic.Bool
	pool := migratedPool(t, pgtest.Database(t), func(config *pgxpool.Config) {
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return &distant{Conn: conn, slow: &slow}, err
		}
	})
	engine := startedOn(t, pool) // its lease takes 4 s
	p := probe(t, engine)
	p.until(http.StatusOK, time.Second)
	for begun := time.Now(); time.Since(begun) < 13*time.Second; {
		slow.Store(time.Since(begun) > 3*time.Second) // it was renewed before
		_, h := p.get("/readyz")
		require.Contains(t, []string{"live", "late"}, h.Lease, h.Reason)
	}
	slow.Store(false)
	p.until(http.StatusOK, 5*time.Second)
}

// distant is a connection to a distant server: a round trip takes less than a fifth
// of a lease of 4 s.
type distant struct {
	net.Conn

	slow *atomic.Bool
}

// Write implements net.Conn.
func (c *distant) Write(b []byte) (int, error) {
	if c.slow.Load() {
		time.Sleep(600 * time.Millisecond)
	}
	return c.Conn.Write(b)
}
