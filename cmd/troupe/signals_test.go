package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// TestAPodOutlivesItsTerminal: under nohup it continues after a hangup, and when the reader
// of its log has gone, and stops in good order all the same.
func TestAPodOutlivesItsTerminal(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	address := pgtest.Database(t)
	environ := []string{"TROUPE_DATABASE_URL=" + address}
	code, _, problem := call(environ, "migrate", "up")
	require.Zero(t, code, problem)
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), "/bin/sh", "-c", `trap '' HUP; exec "$0" orders --listen 127.0.0.1:0`, self)
	c.Env = append(os.Environ(), environ...)
	log, heard, err := os.Pipe()
	require.NoError(t, err)
	c.Stderr = heard
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill() })
	require.NoError(t, heard.Close())
	var line struct{ Msg, Address string }
	for lines := bufio.NewScanner(log); line.Address == "" && lines.Scan(); {
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
	}
	require.NotEmpty(t, line.Address)
	require.NoError(t, log.Close())

	require.NoError(t, c.Process.Signal(syscall.SIGHUP))
	type order struct {
		Run   string
		Steps map[string]string
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := &http.Client{Timeout: 10 * time.Second}
	ask := func(method, path string, body io.Reader) (code int, found order) {
		request, err := http.NewRequestWithContext(ctx, method, "http://"+line.Address+path, body)
		require.NoError(t, err)
		answer, err := client.Do(request)
		require.NoError(t, err, "the pod has ended")
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&found))
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode, found
	}
	var placed order
	for code := 0; code != http.StatusAccepted; { // it takes a moment to start
		code, placed = ask(http.MethodPost, "/orders", strings.NewReader(`{"ID": "o-1", "Cents": 4200}`))
	}
	for run := placed.Run; placed.Steps["charge"] != "completed"; { // which writes to the log
		_, placed = ask(http.MethodGet, "/orders/"+run, nil)
	}
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.Wait())
}
