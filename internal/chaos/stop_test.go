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
	r := begin(t, row{
		ID: "F12", Name: "sigterm-drain", Fault: "SIGTERM under load, steps shorter than the grace",
		Must:    "I1 I3; exit 0",
		Allowed: []figure{within("ended after", brisk().Grace+time.Second), none("re-executed"), none("tasks lost with a pod")},
	})
	y := newYard(r, brisk(), 8)
	pods := y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	began := time.Now()
	pods[1].signal(syscall.SIGTERM)
	<-pods[1].ended
	took := time.Since(began)
	require.Equal(r, exitClean, pods[1].command.ProcessState.ExitCode())
	r.took("ended after", took)
	v := y.settle()
	r.count("re-executed", v.again)
	r.count("tasks lost with a pod", v.losses)
}

// F13: what does not finish within the grace is handed back uncharged, and a
// peer has it at once.
func TestSIGTERMOverrun(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F13", Name: "sigterm-overrun", Fault: "SIGTERM, steps longer than the grace",
		Must:    "not charged as a failure, handed back at once; exit 0",
		Allowed: []figure{within("claimed by a peer after", time.Second), exactly("handed back", 8), none("charged")},
	})
	tune := brisk()
	tune.Grace = 300 * time.Millisecond
	tune.Slots = 8
	y := newYard(r, tune, 0)
	pods := y.start("pod-1")
	y.trigger(pods[0], "hold", 8)
	y.until("every task is held", patience, func() bool { return count(readLedgers(r, y.dir), "begun") == 8 })
	y.letGo("pod-2")
	peers := y.start("pod-2")
	began := time.Now()
	pods[0].signal(syscall.SIGTERM)
	<-pods[0].ended
	took := time.Since(began)
	require.Equal(r, exitClean, pods[0].command.ProcessState.ExitCode())
	y.eventually("the peer has completed all", func() bool { return y.number(openSQL) == 0 })
	require.Equal(r, 8, count(readLedger(r, peers[0].ledger), "done"))
	const gap = `select (max(extract(epoch from started.at - back.at)) * 1000)::int
		from troupe.every_event back join troupe.every_event started
			on started.run_id = back.run_id and started.step = back.step and started.n = back.n + 1 and started.kind = 2
		where back.kind = 8`
	r.took("claimed by a peer after", time.Duration(y.number(gap))*time.Millisecond)
	r.count("charged", y.number(`select count(*)::int from troupe.every_event where kind = 2 and attempt <> 1 or kind = 7`))
	r.note("exit 0 after %d ms (grace %v)", took.Milliseconds(), tune.Grace)
	v := y.judge()
	r.count("handed back", v.released)
}

// A second signal does not wait for the grace.
func TestTwoSIGINTs(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "R12", Name: "two-sigints", Fault: "a second SIGINT while a stop waits for its grace of a minute",
		Must:    "I1 I3",
		Allowed: []figure{within("ended after", 2*time.Second), exactly("executions of 4 tasks", 8)},
	})
	tune := brisk()
	tune.Grace = time.Minute
	y := newYard(r, tune, 0)
	pods := y.start("pod-1")
	y.trigger(pods[0], "hold", 4)
	y.until("every task is held", patience, func() bool { return count(readLedgers(r, y.dir), "begun") == 4 })
	pods[0].signal(syscall.SIGINT)
	y.hear(pods[0], "stopping")
	began := time.Now()
	pods[0].signal(syscall.SIGINT)
	<-pods[0].ended
	took := time.Since(began)
	r.took("ended after", took)
	y.letGo("pod-2")
	y.start("pod-2")
	v := y.judge()
	r.count("executions of 4 tasks", v.executions)
}

// F15: all pods are replaced in turn under load.
func TestRollingDeploy(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F15", Name: "rolling-deploy", Fault: "3 pods replaced in turn under load",
		Must:    "I1 to I6; no run fails",
		Allowed: []figure{none("effects repeated"), none("tasks lost with a pod")},
	})
	y := newYard(r, brisk(), 6)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	for n := range 3 {
		old := y.named(fmt.Sprintf("pod-%d", n+1))
		y.start(fmt.Sprintf("pod-%d", n+4))
		old.signal(syscall.SIGTERM)
		<-old.ended
		require.Equal(r, exitClean, old.command.ProcessState.ExitCode())
	}
	v := y.settle()
	r.count("effects repeated", v.repeated)
	r.count("tasks lost with a pod", v.losses)
}
