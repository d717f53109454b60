package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/bench"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

func TestBenchMeasuresAndSaysHow(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	environ := []string{"TROUPE_DATABASE_URL=" + pgtest.Database(t)}
	code, out, problem := call(environ, "bench", "--runs", "2", "--tasks", "400", "--slots", "50", "--callers", "8", "--samples", "10",
		"--only", "single,diamond,start,alone,timers", "--json")
	require.Zero(t, code, "%s\n%s", out, problem)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var report bench.Report
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &report), out)
	require.Equal(t, 2, report.Repeats)
	require.Positive(t, report.Host.Cores)
	require.NotEmpty(t, report.Server.Version)
	require.NotEmpty(t, report.Server.Settings)
	for i, want := range []struct{ name, figure string }{
		{"single", "tasks_per_second"}, {"diamond", "wal_bytes_per_task"}, {"start", "p50_ms"}, {"alone", "p99_ms"}, {"timers", "p50_ms"},
	} {
		require.Equal(t, want.name, report.Results[i].Name)
		require.Positive(t, report.Results[i].Median(want.figure), "%s of %s", want.figure, want.name)
		require.Contains(t, out, report.Results[i].How)
	}
}

func TestBenchRefusesWhatItCannotMeasure(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"--only dimond":       `no measurement is called "dimond": there are single, diamond`,
		"--runs 0":            "--runs is 0: use 1 or more",
		"--tasks -1 --runs x": `invalid argument "x"`,
	} {
		code, out, problem := call(nil, append([]string{"bench"}, strings.Fields(flags)...)...)
		require.Equal(t, exitUsage, code, flags)
		require.Empty(t, out)
		require.Contains(t, problem, want)
	}
}
