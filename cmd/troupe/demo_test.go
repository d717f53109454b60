package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/demo"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// The demo's own checks are strict; this adds that its last line says so.
func TestDemoCountsRecoversAndSaysSo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds: a pod's lease must end")
	}
	address := pgtest.Database(t)
	code, out, problem := call([]string{"TROUPE_DATABASE_URL=" + address}, "demo", "--json", "--packages", "40", "--keep")
	require.Zero(t, code, "%s\n%s", out, problem)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var result demo.Result
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &result), out)
	require.Positive(t, result.Seconds)
	require.GreaterOrEqual(t, result.RecoveredTasks, 0)
	result.Seconds, result.RecoveredTasks = 0, 0
	require.Equal(t, demo.Result{Runs: 40, Completed: 40, PodsKilled: 1, TotalsMatch: true}, result)

	kept, err := url.Parse(address)
	require.NoError(t, err)
	name := fmt.Sprintf("troupe_demo_%d", os.Getpid())
	kept.Path = "/" + name
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), address)
		require.NoError(t, err)
		require.Eventually(t, func() bool { // the server may not have noticed yet that the killed pod reads its stream no more
			_, err = conn.Exec(context.Background(), "drop database "+name)
			return err == nil
		}, time.Minute, 10*time.Millisecond, "%v", err)
		require.NoError(t, conn.Close(context.Background()))
	})
	require.Contains(t, out, "export TROUPE_DATABASE_URL='"+kept.Redacted()+"'\n")
	require.Contains(t, out, "the database "+name+" stays")
	shown := 0
	for line := range strings.Lines(out) {
		command, is := strings.CutPrefix(strings.TrimSpace(line), "troupe ")
		if !is || strings.HasPrefix(command, "demo") {
			continue
		}
		shown++
		code, said, problem := call([]string{"TROUPE_DATABASE_URL=" + kept.String()}, strings.Fields(command)...)
		require.Zero(t, code, "%s: %s", command, problem)
		require.NotEmpty(t, said, command)
	}
	require.Equal(t, 6, shown)
}

func TestDemoStopsInGoodOrderOnASignal(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), self, "demo")
	c.Env = append(os.Environ(), "TROUPE_DATABASE_URL="+pgtest.Database(t))
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	var problem strings.Builder
	c.Stderr = &problem
	require.NoError(t, c.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "are triggered") {
			require.NoError(t, c.Process.Signal(syscall.SIGINT))
		}
	}
	require.Error(t, c.Wait())
	require.Equal(t, exitInterrupted, c.ProcessState.ExitCode())
	require.Equal(t, "troupe: interrupted\n", problem.String())
}
