package orders_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/orders"
	example "github.com/troupe-dev/troupe/examples/orders"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// lines hands on each line that is written to it.
type lines chan map[string]any

// Write implements io.Writer.
func (l lines) Write(text []byte) (int, error) {
	var line map[string]any
	if err := json.Unmarshal(bytes.TrimSpace(text), &line); err != nil {
		return 0, err
	}
	l <- line
	return len(text), nil
}

// The pod answers its probes from the first moment, takes an order once, shows
// it, and stops in good order when its context ends, as after SIGTERM.
func TestServe(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	log := make(lines, 100)
	ended := make(chan error, 1)
	go func() {
		config := troupe.Config{Logger: slog.New(slog.NewJSONHandler(log, nil))}
		ended <- orders.Serve(ctx, pool, config, "127.0.0.1:0")
	}()
	address := ""
	for line := range log {
		if text, ok := line["address"].(string); ok {
			address = "http://" + text
			break
		}
	}
	go func() {
		for range log { // the pod keeps logging
			continue
		}
	}()
	require.Equal(t, http.StatusOK, get(t, address+"/livez").code)
	require.Eventually(t, func() bool { return get(t, address+"/readyz").code == http.StatusOK }, 30*time.Second, 20*time.Millisecond)

	first := post(t, address+"/orders", `{"ID": "o-1", "Cents": 4200}`)
	require.Equal(t, http.StatusAccepted, first.code)
	again := post(t, address+"/orders", `{"ID": "o-1", "Cents": 4200}`)
	require.Equal(t, first.body["run"], again.body["run"])
	require.Equal(t, true, again.body["existing"])
	require.Equal(t, http.StatusConflict, post(t, address+"/orders", `{"ID": "o-1", "Cents": 1}`).code)
	for _, bad := range []string{"", "{}", `{"ID": 1}`, `{"ID": "x", "Colour": "red"}`, `{"ID": "x"} {"ID": "y"}`, `{"ID": "` + strings.Repeat("x", 20_000) + `"}`} {
		require.Equal(t, http.StatusBadRequest, post(t, address+"/orders", bad).code, "%.40s", bad)
	}
	require.Equal(t, http.StatusNotFound, get(t, address+"/orders/nothing").code)
	run := address + "/orders/" + first.body["run"].(string) //nolint:errcheck,forcetypeassert // it was compared
	require.Eventually(t, func() bool {
		steps, _ := get(t, run).body["steps"].(map[string]any)
		return steps["prepare-shipment"] == "completed" && steps["fraud-window"] == "sleeping"
	}, 30*time.Second, 20*time.Millisecond)

	stop()
	require.NoError(t, <-ended)
	_, err = http.Get(address + "/livez")
	require.Error(t, err, "the port is closed")
}

// Every path that the manifests probe is one that the pod has.
func TestProbesExist(t *testing.T) {
	t.Parallel()
	engine, err := troupe.NewInMemory(troupe.Config{})
	require.NoError(t, err)
	handle, err := troupe.Register(engine, example.Workflow(nil))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, engine.Stop(context.WithoutCancel(t.Context()))) })
	server := httptest.NewServer(orders.Handler(engine, handle))
	t.Cleanup(server.Close)
	c := manifests(t)["Deployment"].Spec.Template.Spec.Containers[0]
	for name, p := range map[string]probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		require.Equal(t, http.StatusOK, get(t, server.URL+p.HTTPGet.Path).code, name)
		require.Equal(t, c.Ports[0].Name, p.HTTPGet.Port, name)
	}
	require.Equal(t, "/livez", c.LivenessProbe.HTTPGet.Path, "a pod outlives its database")
	require.Equal(t, "/readyz", c.ReadinessProbe.HTTPGet.Path)
	require.GreaterOrEqual(t, c.ReadinessProbe.TimeoutSeconds, 2, "a probe asks the database for up to a second")
	require.Equal(t, http.StatusNotFound, get(t, server.URL+"/other").code)
}

type answered struct {
	code int
	body map[string]any
}

func get(t *testing.T, url string) answered { t.Helper(); return call(t, http.MethodGet, url, "") }

func post(t *testing.T, url, body string) answered {
	t.Helper()
	return call(t, http.MethodPost, url, body)
}

func call(t *testing.T, method, url, body string) answered {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }() // it was read
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	a := answered{code: response.StatusCode}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		require.NoError(t, json.Unmarshal(text, &a.body))
	}
	return a
}
