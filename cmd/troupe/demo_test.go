package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

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
	environ := []string{"TROUPE_DATABASE_URL=" + pgtest.Database(t)}
	code, out, problem := call(environ, "demo", "--json", "--packages", "40")
	require.Zero(t, code, "%s\n%s", out, problem)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var result demo.Result
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &result), out)
	require.Positive(t, result.Seconds)
	require.GreaterOrEqual(t, result.RecoveredTasks, 0)
	result.Seconds, result.RecoveredTasks = 0, 0
	require.Equal(t, demo.Result{Runs: 40, Completed: 40, PodsKilled: 1, TotalsMatch: true}, result)
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
