package demo

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/census"
)

func sampleOutcome() outcome {
	taken, resumed := 3.1, 3.25
	total := census.Total{
		Packages: 757, Files: 6421, Lines: 2726922, Bytes: 86003925, Declarations: 309296,
		Comments: 445728, Tested: 381, Tests: 11644,
	}
	return outcome{
		audit: audit{
			runs: 757, completed: 757, total: total,
			waits:  map[string]quantity{"cmd": {0.5, 2.5}, "others": {0.01}},
			probes: quantity{0.0021, 0.0042}, lateness: quantity{0.003}, taken: &taken, resumed: &resumed,
			executed: map[string]int{"pod-1": 2400, "pod-2": 900, "pod-3": 2300},
			account:  account{Begun: 5600, Repeated: 1, Retries: 108, Sleeps: 757, Lost: 4, Regained: 4},
		},
		straight: total, loop: 4 * time.Second, seconds: 21.239, wanted: 757,
		tenants: []tenantLine{{name: "cmd", total: 368}, {name: "others", total: 115}}, pods: []string{"pod-1", "pod-2", "pod-3"},
		victim: "pod-2", held: 5, led: true, reign: 2900 * time.Millisecond, killed: 4100 * time.Millisecond, tasks: 9 * time.Second,
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	o := sampleOutcome()
	require.True(t, o.holds())
	require.Equal(t, `
  counted         by the pods  straight loop
  packages                757            757  ✓
  files                 6,421          6,421  ✓
  lines             2,726,922      2,726,922  ✓
  bytes            86,003,925     86,003,925  ✓
  declarations        309,296        309,296  ✓
  comments            445,728        445,728  ✓
  with tests              381            381  ✓
  tests                11,644         11,644  ✓

  waiting                runs            p50            p99   trigger to start
  cmd                     368         500 ms         2.50 s
  others                  115          10 ms          10 ms

  recovery
  pod-2 was killed with SIGKILL after 4.10 s, while it executed 5 tasks
  it was the leader; the next one led 2.90 s later
  4 tasks were lost with it, 4 of them completed on other pods
  the results of the other 1 were on their way to the database, and count
  they were taken back 3.10 s after the kill; the last ran again after 3.25 s
  attempts executed: pod-1 2,400, pod-2 900, pod-3 2,300

  times
  all runs     9.00 s on the pods, the wait for the dead one's lease included
  the loop     4.00 s for the same counting, nothing else
  wake         stored to start (0: same pod): p50 2.1 ms, p99 4.2 ms (2 probes)
  sleeps       757 durable ones of 1s, woken late by p50 3.0 ms, p99 3.0 ms
  retries      108, of steps whose first attempt failed on purpose

  ✓ 757 of 757 runs completed
  ✓ the totals are those of the straight loop
  ✓ one pod was killed
  ✓ 0 runs or completions lost
  ✓ 0 double completions
  ✓ 5,600 executions match the history (1 repeated after a loss, 0 unexplained)
`, o.report(ink{}))
	for line := range strings.Lines(o.report(ink{})) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSpace(line)), 80-len("  "), "on a terminal of 80 columns: %s", line)
	}
}

func TestResultIsTheLineThatScriptsRead(t *testing.T) {
	t.Parallel()
	line, err := json.Marshal(sampleOutcome().result())
	require.NoError(t, err)
	require.JSONEq(t, `{"runs":757,"completed":757,"failed":0,"pods_killed":1,"recovered_tasks":4,`+
		`"double_completions":0,"lost":0,"totals_match":true,"seconds":21.23}`, string(line))
}

func TestWhateverDoesNotMatchFails(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*outcome){
		"a run failed":      func(o *outcome) { o.audit.completed, o.audit.failed = 756, 1 },
		"a run too many":    func(o *outcome) { o.audit.runs++ },
		"totals differ":     func(o *outcome) { o.audit.total.Lines-- },
		"no pod was killed": func(o *outcome) { o.victim = "" },
		"a run is missing":  func(o *outcome) { o.audit.missing = 1 },
		"a run ended twice": func(o *outcome) { o.audit.double = 1 },
		"double completion": func(o *outcome) { o.audit.account.Double = 1 },
		"effect missing":    func(o *outcome) { o.audit.account.Missing = 1 },
		"effect ungranted":  func(o *outcome) { o.audit.account.Phantom = 1 },
	} {
		o := sampleOutcome()
		spoil(&o)
		require.False(t, o.holds(), name)
		require.Contains(t, o.report(ink{}), "✗", name)
	}
}
