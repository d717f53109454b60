package load

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/testbed"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "%s is out of date: go test ./cmd/troupe/internal/load -update", path)
}

// sampleReport is what a load may have come to.
func sampleReport() Report {
	h := func(least time.Duration) *Histogram {
		var h Histogram
		for i := range 1000 {
			h.Record(least + time.Duration(i*i)*10*time.Nanosecond)
		}
		return &h
	}
	return Report{
		Host:   testbed.Host{CPU: "a processor", Cores: 2, MemoryGiB: 8, OS: "linux/amd64", Go: "go1.26"},
		Server: testbed.Server{Version: "15.1", Private: true, Settings: []string{"fsync=on"}},
		Load: Load{
			Pods: 2, Slots: 100, Shape: "chain-3", Duration: time.Minute, Rate: 100, Payload: 2048, Tenants: 3,
			FailureRate: 0.05, FatalRate: 0.01, StepLatency: Spread{time.Millisecond, 2 * time.Millisecond},
		},
		Seconds: 60.1, RunsPerSecond: 99.8, Steps: 18_000, StepsPerSecond: 299.5, Retried: 903, Errored: 2, Lost: 1,
		Runs:         Runs{Triggered: 5900, Refused: 100, Refusal: "trigger refused (overloaded)", Completed: 5837, Failed: 61, Unasked: 1, Canceled: 1, Open: 1},
		Acknowledged: newLatency(h(900 * time.Microsecond)), Started: newLatency(h(2 * time.Millisecond)), Ended: newLatency(h(15 * time.Millisecond)),
		WALPerStep: 1234.5, TransactionsPerStep: 0.123, PodCPUPerStep: 41.26, ServerCPUPerStep: 61.5,
		Triggers: Batches{100, 5900}, Claims: Batches{400, 18_000}, Records: Batches{300, 18_903}, Wakes: 12,
		Pods: []PodReport{
			{Name: "pod-1", Triggered: 2950, Steps: 9100, CPUSeconds: 12.3, Cores: 0.2, MemoryMiB: 20.1, PeakMemoryMiB: 33.2, LiveMiB: 3.2, PeakLiveMiB: 5.6},
			{Name: "pod-2", Triggered: 2950, Steps: 8900, CPUSeconds: 12.1, Cores: 0.2, LiveMiB: 3.1, PeakLiveMiB: 5.4},
		},
	}
}

func TestTheReportReads(t *testing.T) {
	t.Parallel()
	r := sampleReport()
	golden(t, "report.txt", r.Load.describe()+"\n"+r.text())

	r.Load = Load{Pods: 1, Slots: 10, Shape: "single", Runs: 1, Concurrent: 1}
	r.Runs = Runs{Triggered: 1, Completed: 1}
	r.Interrupted, r.Errored, r.Lost, r.Retried, r.ServerCPUPerStep, r.Pods = true, 0, 0, 0, 0, nil
	r.Acknowledged, r.Started, r.Ended = newLatency(&Histogram{}), newLatency(&Histogram{}), newLatency(&Histogram{})
	golden(t, "report_small.txt", r.Load.describe()+"\n"+r.text())
}

// What a machine does is told in activities, which are steps, and in activations.
func TestTheReportOfMachinesReads(t *testing.T) {
	t.Parallel()
	l := Load{Pods: 1, Slots: 100, Shape: "machine", Runs: 200, Concurrent: 200}
	require.Equal(t, "machine: a state machine with 20 activities a run, one after the other · at most 200 runs open · 200 runs · 1 pod of 100 slots", l.describe())
	l.Shape = "machine-1"
	require.Contains(t, l.describe(), "machine-1: a state machine with 1 activity a run")
	r := Report{Load: l, Seconds: 2, Steps: 4000, StepsPerSecond: 2000, Activations: 4200, ActivationsPerSecond: 2100}
	r.Acknowledged, r.Started, r.Ended = newLatency(&Histogram{}), newLatency(&Histogram{}), newLatency(&Histogram{})
	require.Contains(t, r.text(), "\n  activations  4,200, 2,100 a second; the steps are the activities\n")
}

func TestOnlyUnaskedFailuresAreAProblem(t *testing.T) {
	t.Parallel()
	for want, runs := range map[string]Runs{
		"":                      {Triggered: 10, Completed: 9, Failed: 1},
		"2 runs failed unasked": {Triggered: 10, Completed: 7, Failed: 3, Unasked: 2},
		"1 run had not ended when nothing moved any more":     {Triggered: 10, Completed: 9, Open: 1},
		"no run was triggered: trigger refused (unavailable)": {Refused: 3, Refusal: "trigger refused (unavailable)"},
	} {
		err := Report{Runs: runs}.problem()
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, want)
	}
}

func TestProgressIsPlainLinesWhereNoTerminalIs(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := newDisplay(&out)
	l := Load{Runs: 4000, FailureRate: 0.1, FatalRate: 0.1}
	for i := range 100 {
		n := int64(i * 50)
		d.show(progress{load: l, passed: time.Duration(i) * 100 * time.Millisecond, sum: tally{
			Triggered: n + 7, Ends: []int64{n}, Failed: n / 10, Retried: n / 5, Refused: int64(i / 90), Idle: i > 80,
		}, halted: i > 90})
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Equal(t, []string{
		"   2.0 s      1,000        500 runs/s         7 open  100 failed  200 retried",
		"   4.0 s      2,000        500 runs/s         7 open  200 failed  400 retried",
		"   6.0 s      3,000        500 runs/s         7 open  300 failed  600 retried",
		"   8.0 s      4,000        500 runs/s         7 open  400 failed  800 retried",
	}, lines)
}

// A large map takes long: its elements are what moves.
func TestProgressCountsElements(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	newDisplay(&out).show(progress{load: Load{Runs: 1}, passed: 2 * time.Second, sum: tally{Triggered: 1, Elements: 4321, Idle: true}})
	require.Equal(t, "   2.0 s          0          0 runs/s         1 open  4,321 elements  letting runs end\n", out.String())
}

func TestProgressIsOneLineOnATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	width := 200
	d := newDisplay(&out)
	d.width = func() int { return width }
	half := progress{load: Load{Duration: 10 * time.Second}, passed: 5 * time.Second, sum: tally{Triggered: 90, Ends: []int64{40, 40}}}
	d.show(half)
	require.Equal(t, "\r██████████              5.0 s         80         16 runs/s        10 open\x1b[K", out.String())

	out.Reset()
	width, half.passed = 31, 6*time.Second
	d.show(half)
	require.Equal(t, "\r   6.0 s         80          0\x1b[K", out.String(), "no line is longer than the terminal is wide")

	out.Reset()
	d.say("done")
	require.Equal(t, "\r\x1b[Kdone\n", out.String())
}

func TestBarsAreAsLongAsTheirShare(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]string{0: "    ", 0.5: "██  ", 1: "████", 0.28: "█▏  "} {
		require.Equal(t, want, bar(share, 4))
	}
}
