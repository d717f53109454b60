package chaos

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// F12: a pod that is told to stop finishes what it executes, exits with 0, and
// nothing is executed again. What was granted to it and not begun may go back.
func TestSIGTERMDrains(t *testing.T) {
	t.Parallel()
	y := newYard(t, brisk(), 8)
	pods := y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	began := time.Now()
	pods[1].signal(syscall.SIGTERM)
	<-pods[1].ended
	took := time.Since(began)
	require.Equal(t, exitClean, pods[1].command.ProcessState.ExitCode())
	require.Less(t, took, y.tune.Grace+time.Second)
	v := y.settle()
	require.Zero(t, v.again)
	require.Zero(t, v.losses)
	measured(t, "F12", "SIGTERM under load, steps shorter than the grace", "exit 0 after %d ms; %v", took.Milliseconds(), v)
}

// F13: what does not finish within the grace is handed back uncharged, and a
// peer has it at once.
func TestSIGTERMOverrun(t *testing.T) {
	t.Parallel()
	tune := brisk()
	tune.Grace = 300 * time.Millisecond
	tune.Slots = 8
	y := newYard(t, tune, 0)
	pods := y.start("pod-1")
	y.trigger(pods[0], "hold", 8)
	y.until("every task is held", patience, func() bool { return count(readLedgers(t, y.dir), "begun") == 8 })
	y.letGo("pod-2")
	peers := y.start("pod-2")
	began := time.Now()
	pods[0].signal(syscall.SIGTERM)
	<-pods[0].ended
	took := time.Since(began)
	require.Equal(t, exitClean, pods[0].command.ProcessState.ExitCode())
	v := y.judge()
	require.Equal(t, 8, v.released)
	require.Zero(t, v.losses)
	require.Equal(t, 8, count(readLedger(t, peers[0].ledger), "done"))
	const gap = `select (max(extract(epoch from started.at - back.at)) * 1000)::int
		from troupe.every_event back join troupe.every_event started
			on started.run_id = back.run_id and started.step = back.step and started.n = back.n + 1 and started.kind = 2
		where back.kind = 8`
	again := y.number(gap)
	require.LessOrEqual(t, again, 1000)
	require.Zero(t, y.number(`select count(*)::int from troupe.every_event where kind = 2 and attempt <> 1`), "nothing is charged")
	measured(t, "F13", "SIGTERM, steps longer than the grace",
		"exit 0 after %d ms (grace %v), claimed by a peer %d ms after they were handed back, charged 0", took.Milliseconds(), tune.Grace, again)
}

// A second signal does not wait for the grace.
func TestTwoSIGINTs(t *testing.T) {
	t.Parallel()
	tune := brisk()
	tune.Grace = time.Minute
	y := newYard(t, tune, 0)
	pods := y.start("pod-1")
	y.trigger(pods[0], "hold", 4)
	y.until("every task is held", patience, func() bool { return count(readLedgers(t, y.dir), "begun") == 4 })
	pods[0].signal(syscall.SIGINT)
	y.hear(pods[0], "stopping")
	began := time.Now()
	pods[0].signal(syscall.SIGINT)
	<-pods[0].ended
	took := time.Since(began)
	require.Less(t, took, 2*time.Second)
	y.letGo("pod-2")
	y.start("pod-2")
	v := y.judge()
	require.Equal(t, 8, v.executions)
	measured(t, "R12", "a second SIGINT while a stop waits for its grace of a minute", "ended after %d ms; %v", took.Milliseconds(), v)
}

// F15: all pods are replaced in turn under load.
func TestRollingDeploy(t *testing.T) {
	t.Parallel()
	y := newYard(t, brisk(), 6)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	for n := range 3 {
		old := y.named(fmt.Sprintf("pod-%d", n+1))
		y.start(fmt.Sprintf("pod-%d", n+4))
		old.signal(syscall.SIGTERM)
		<-old.ended
		require.Equal(t, exitClean, old.command.ProcessState.ExitCode())
	}
	v := y.settle()
	require.Zero(t, v.repeated)
	require.Zero(t, v.losses)
	measured(t, "F15", "3 pods replaced in turn under load", "failed runs 0; %v", v)
}
