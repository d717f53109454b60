package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/bench"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/load"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

var update = flag.Bool("update", false, "write the golden files")

func TestBenchHelp(t *testing.T) {
	t.Parallel()
	code, out, problem := call(nil, "bench", "--help")
	require.Zero(t, code, problem)
	const path = "testdata/bench_help.txt"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(out), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), out, "%s is out of date: go test ./cmd/troupe -run BenchHelp -update", path)
}

// loadReport is the report that a load's last line has, and everything that it
// printed.
func loadReport(t *testing.T, args ...string) (load.Report, string) {
	t.Helper()
	environ := []string{"TROUPE_DATABASE_URL=" + pgtest.Database(t), "TMPDIR=" + t.TempDir()}
	code, out, problem := call(environ, append([]string{"bench", "--json"}, args...)...)
	require.Zero(t, code, "%s\n%s", out, problem)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var report load.Report
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &report), out)
	return report, out
}

// Two pods are processes that execute each other's runs. What failed is what
// was asked to fail, and everything that is measured is there.
func TestBenchPutsALoadOnTwoPods(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds: pods learn of each other")
	}
	report, out := loadReport(t, "--runs", "200", "--concurrent", "20", "--pods", "2", "--tenants", "3", "--payload", "500",
		"--failure-rate", "0.1", "--fatal-rate", "0.1", "--step-latency", "0s-2ms")
	runs := report.Runs
	require.EqualValues(t, 200, runs.Triggered)
	require.EqualValues(t, 200, runs.Completed+runs.Failed)
	require.InDelta(t, 20, runs.Failed, 15)
	require.Zero(t, runs.Unasked+runs.Open+runs.Canceled+runs.Refused)
	require.InDelta(t, 0.1, report.FailureRate, 0.075)
	require.EqualValues(t, 800, report.Steps)
	require.InDelta(t, 80, report.Retried, 40)
	require.Zero(t, report.Errored+report.Lost, out)
	for name, l := range map[string]load.Latency{"acknowledged": report.Acknowledged, "started": report.Started, "ended": report.Ended} {
		require.EqualValues(t, 200, l.Count, name)
		require.Positive(t, l.P50, name)
		require.LessOrEqual(t, l.P50, l.P95, name)
		require.LessOrEqual(t, l.P95, l.P99, name)
		require.LessOrEqual(t, l.P99, l.Max, name)
	}
	require.Less(t, report.Acknowledged.P50, report.Started.P50)
	require.Less(t, report.Started.P50, report.Ended.P50)
	require.Greater(t, report.WALPerStep, 500.0, "each step has an output of 500 bytes")
	require.Positive(t, report.PodCPUPerStep)
	require.Len(t, report.Pods, 2)
	for _, pod := range report.Pods {
		require.EqualValues(t, 100, pod.Triggered)
		require.Positive(t, pod.Steps, "a pod did nothing:\n%s", out)
		require.Positive(t, pod.CPUSeconds)
	}
	require.Contains(t, out, "all as asked")
	require.Contains(t, out, "p99")
}

// Scripts rely on the names.
func TestBenchJSONKeys(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	_, out := loadReport(t, "--runs", "20", "--shape", "single", "--rate", "200")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var keys map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &keys))
	var names []string
	for name := range keys {
		names = append(names, name)
	}
	slices.Sort(names)
	require.Equal(t, []string{
		"acknowledged", "attempts_failed_unasked", "attempts_lost", "claim_transactions", "ended", "failure_rate", "host", "interrupted", "load",
		"pod_cpu_us_per_step", "pods", "postgresql", "record_transactions", "retried_as_asked", "runs", "runs_per_second", "seconds",
		"server_cpu_us_per_step", "started", "steps", "steps_per_second", "transactions_per_step", "trigger_transactions", "wakes", "wal_bytes_per_step",
	}, names)
	require.JSONEq(t, `["count","max_ms","mean_ms","p50_ms","p95_ms","p99_ms"]`, keysOf(t, keys["ended"]))
	require.JSONEq(t, `["canceled","completed","failed","failed_unasked","open","refused","triggered"]`, keysOf(t, keys["runs"]))
}

func keysOf(t *testing.T, object json.RawMessage) string {
	t.Helper()
	var fields map[string]any
	require.NoError(t, json.Unmarshal(object, &fields))
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	text, err := json.Marshal(names)
	require.NoError(t, err)
	return string(text)
}

func TestBenchShapesExecuteTheirSteps(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	type bounds struct{ least, most int64 }
	for shape, steps := range pgtest.Scale(map[string]bounds{"fan-4": {180, 180}, "orders": {30 * 3, 30*6 - 1}, "map-7": {270, 270}, "machine-7": {210, 210}}, map[string]bounds{
		"single": {30, 30}, "chain-3": {90, 90}, "fan-4": {180, 180}, "orders": {30 * 3, 30*6 - 1}, "map-7": {270, 270}, "settled-7": {270, 270},
		"machine-7": {210, 210},
	}) {
		report, _ := loadReport(t, "--runs", "30", "--concurrent", "10", "--shape", shape)
		require.EqualValues(t, 30, report.Runs.Completed, shape)
		require.GreaterOrEqual(t, report.Steps, steps.least, shape)
		require.LessOrEqual(t, report.Steps, steps.most, shape)
	}
}

// Elements fail once as steps do, are counted among them, and end in windows. What a pod has in
// use is measured before the load and during it.
func TestBenchOfMaps(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	report, out := loadReport(t, "--runs", "2", "--concurrent", "1", "--shape", "map-200", "--at-once", "20", "--failure-rate", "0.1", "--payload", "100")
	require.EqualValues(t, 2, report.Runs.Completed, out)
	require.EqualValues(t, 400, report.Elements)
	require.EqualValues(t, 404, report.Steps)
	require.InDelta(t, 40, report.Retried, 25)
	require.Zero(t, report.Errored+report.Lost, out)
	require.InDelta(t, report.StepsPerSecond*400/404, report.ElementsPerSecond, 1)
	require.Equal(t, 20, report.Load.AtOnce)
	pod := report.Pods[0]
	require.Positive(t, pod.LiveMiB)
	require.Positive(t, pod.PeakLiveMiB)
	require.Positive(t, pod.PeakMemoryMiB)
	require.Contains(t, out, "20 elements at once in each")
	require.Contains(t, out, "400 of the steps")
}

// The stress options mean the same with machines: the activities are the steps, which fail once or
// for good as asked, and each end of one is an activation.
func TestBenchOfMachines(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	report, out := loadReport(t, "--runs", "40", "--concurrent", "20", "--shape", "machine-5", "--failure-rate", "0.1", "--fatal-rate", "0.1",
		"--step-latency", "0s-2ms", "--payload", "100")
	require.EqualValues(t, 40, report.Runs.Completed+report.Runs.Failed, out)
	require.Zero(t, report.Runs.Unasked+report.Runs.Open, out)
	require.Positive(t, report.Runs.Failed)
	require.InDelta(t, 0.1, report.FailureRate, 0.1)
	require.EqualValues(t, 200, report.Steps)
	require.InDelta(t, 20, report.Retried, 15)
	require.Zero(t, report.Errored+report.Lost, out)
	require.EqualValues(t, 40*6-report.Runs.Failed, report.Activations, "the last one of a machine that fails is no end of an activation")
	require.Positive(t, report.ActivationsPerSecond)
	require.LessOrEqual(t, report.Ended.P50, report.Ended.P99)
	require.Positive(t, report.Pods[0].PeakLiveMiB)
	require.Contains(t, out, "5 activities a run")
	require.Contains(t, out, " a second; the steps are the activities")
}

// Runs that fail unasked are counted in the database, since no last step has reported
// them, and they are an error.
func TestBenchReportsUnaskedFailures(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds: all attempts fail")
	}
	environ := []string{"TROUPE_DATABASE_URL=" + pgtest.Database(t), "TROUPE_ATTEMPT_TIMEOUT=1ms"}
	code, out, problem := call(environ, "bench", "--runs", "4", "--concurrent", "2", "--shape", "single", "--step-latency", "1m")
	require.Equal(t, exitFailed, code, out)
	require.Equal(t, "troupe: 4 runs failed unasked\n", problem)
	require.Contains(t, out, "4 triggered: 0 completed, 4 failed, 4 of them UNASKED")
	require.Contains(t, out, "20 failed UNASKED", "each of the attempts")
}

// A signal ends the load and not the runs: the report is complete.
func TestBenchStopsInGoodOrderOnASignal(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), self, "bench", "--duration", "10m", "--concurrent", "8", "--json")
	c.Env = append(os.Environ(), "TROUPE_DATABASE_URL="+pgtest.Database(t))
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	var problem strings.Builder
	c.Stderr = &problem
	require.NoError(t, c.Start())
	var last string
	asked := false
	for lines := bufio.NewScanner(out); lines.Scan(); last = lines.Text() {
		if !asked && strings.Contains(lines.Text(), " runs/s") {
			asked = true
			require.NoError(t, c.Process.Signal(syscall.SIGINT))
		}
	}
	require.NoError(t, c.Wait(), problem.String())
	var report load.Report
	require.NoError(t, json.Unmarshal([]byte(last), &report), last)
	require.True(t, report.Interrupted)
	require.Positive(t, report.Runs.Triggered)
	require.Equal(t, report.Runs.Triggered, report.Runs.Completed)
}

func TestBenchRefusesALoadThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"--shape ring":                 `--shape is "ring": use one of single, chain-N`,
		"--step-latency soon":          `invalid argument "soon" for "--step-latency" flag: use a duration such as 10ms, or two as in 10ms-30ms: troupe bench --help lists the flags`,
		"--rate 5 --concurrent 5":      "--rate and --concurrent exclude each other",
		"--pods 0 --failure-rate 7":    "--pods is 0: use 1 to 64; --failure-rate is 7: use a share between 0 and 1",
		"--concurent 7":                "unknown flag: --concurent: troupe bench --help lists the flags",
		"figure":                       `troupe bench has no command "figure": did you mean figures?`,
		"figures --only dimond":        `no measurement is called "dimond": there are single, diamond`,
		"figures --runs 0":             "--runs is 0: use 1 to 1000",
		"figures --samples 9999999":    "--samples is 9999999: use 1 to 1000000",
		"--tenants 999999999999":       "--tenants is 999999999999: use 1 to 100000",
		"--runs 0":                     "--runs is 0: use 1 to 1000000000",
		"--concurrent 0 --duration 0s": "--concurrent is 0: use 1 to 1000000; --duration is 0s: use more than 0s",
		"figures --tasks -1 --runs x":  `invalid argument "x"`,
	} {
		code, out, problem := call(nil, append([]string{"bench"}, strings.Fields(flags)...)...)
		require.Equal(t, exitUsage, code, flags)
		require.Empty(t, out)
		require.Contains(t, problem, want)
	}
}

func TestFiguresAreMeasuredAndSayHow(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	environ := []string{"TROUPE_DATABASE_URL=" + pgtest.Database(t)}
	code, out, problem := call(environ, "bench", "figures", "--runs", "2", "--tasks", "400", "--slots", "50", "--callers", "8", "--samples", "10",
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
