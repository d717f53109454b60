package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/troupetest"
)

// The service on PostgreSQL: an order that is sent twice is placed once, and what
// operators look at is there.
func TestService(t *testing.T) {
	t.Parallel()
	if os.Getenv(troupetest.DatabaseURL) == "" {
		t.Skip("set " + troupetest.DatabaseURL + " to run the example on PostgreSQL")
	}
	pool := troupetest.Pool(t)
	var traces bytes.Buffer
	s, err := newService(pool, troupetest.Schema(t, pool), &traces)
	require.NoError(t, err)
	troupetest.Start(t, s.engine)
	server := httptest.NewServer(s.routes())
	defer server.Close()

	place := func(key, body string) *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/orders", strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Idempotency-Key", key)
		return do(t, request)
	}
	first := place("k-1", `{"id":"o-1","amount":4200}`)
	require.Equal(t, http.StatusAccepted, first.StatusCode)
	again := place("k-1", `{"id":"o-1","amount":4200}`)
	require.Equal(t, first.Header.Get("Location"), again.Header.Get("Location"))
	require.Equal(t, http.StatusConflict, place("k-1", `{"id":"o-1","amount":1}`).StatusCode)
	require.Equal(t, http.StatusBadRequest, place("k-2", `{`).StatusCode)

	id, err := troupe.ParseRunID(strings.TrimPrefix(first.Header.Get("Location"), "/orders/"))
	require.NoError(t, err)
	require.Equal(t, "paid o-1, shipped", troupetest.Await(t, s.orders.Get("", id)))

	require.Contains(t, get(t, server.URL+first.Header.Get("Location")), `"state":"completed"`)
	require.Contains(t, get(t, server.URL+"/readyz"), `"ready":true`)
	require.Contains(t, get(t, server.URL+"/metrics"), `troupe_runs_ended_total{state="completed",workflow="orders"} 1`)
	require.NoError(t, s.traces.ForceFlush(t.Context()))
	require.Contains(t, traces.String(), `"Name":"orders/charge"`)
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	answer := do(t, request)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	var body bytes.Buffer
	_, err = body.ReadFrom(answer.Body)
	require.NoError(t, err)
	return body.String()
}

func do(t *testing.T, request *http.Request) *http.Response {
	t.Helper()
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}
