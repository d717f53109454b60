package chaos

import (
	"fmt"
	"math"
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
			on started.run_id = back.run_id and started.step = back.step and started.n = back.n + 1 and started.kind = 'started'
		where back.kind = 'released'`
	r.took("claimed by a peer after", time.Duration(y.number(gap))*time.Millisecond)
	r.count("charged", y.number(`select count(*)::int from troupe.every_event where kind = 'started' and attempt <> 1 or kind = 'lost'`))
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
		Allowed: []figure{none("effects repeated"), none("tasks lost with a pod"), slowerByDeploy().inGoTest(math.Inf(1))},
	})
	y := newYard(r, brisk(), 6)
	y.deploy(nil)
	v := y.settle()
	r.count("effects repeated", v.repeated)
	r.count("tasks lost with a pod", v.losses)
}

// F15: the new pods run another version of a workflow. Runs of the old one end
// on them, with the graph that they began with.
func TestRollingDeployOfTwoVersions(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F15", Name: "rolling-two-versions", Fault: "3 pods replaced in turn under load by pods with another version of a workflow",
		FullOnly: true, Must: "I1 to I6; no run fails",
		Allowed: []figure{
			none("tasks lost with a pod"), atLeast("runs of the old version", 10, ""), atLeast("runs of the new version", 10, ""), slowerByDeploy(),
		},
	})
	y := newYard(r, brisk(), 6)
	y.deploy(func(s *podSpec) { s.Version = 1 })
	v := y.settle()
	const versions = `select count(*)::int from troupe.every_run r join troupe.workflow_definitions d using (definition)
		where d.name = 'diamond' and d.steps = $1`
	r.count("runs of the old version", y.number(versions, 4))
	r.count("runs of the new version", y.number(versions, 5))
	r.count("tasks lost with a pod", v.losses)
}

const slowerName = "p99 of a diamond, times before"

func slowerByDeploy() figure { return atMost(slowerName, 2, "") }

// deploy starts three pods and, under load, replaces them in turn by what each
// makes of them. It measures how much longer runs take meanwhile.
func (y *yard) deploy(each func(*podSpec)) {
	y.t.Helper()
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	y.under(spell(time.Second, 4*time.Second))
	began := y.databaseNow()
	before := y.slowest(time.Time{}, began)
	y.each = each
	for n := range 3 {
		old := y.named(fmt.Sprintf("pod-%d", n+1))
		y.start(fmt.Sprintf("pod-%d", n+4))
		y.under(spell(time.Second, 4*time.Second)) // old and new are at work
		old.signal(syscall.SIGTERM)
		y.awaitEnd(old)
		require.Equal(y.t, exitClean, old.command.ProcessState.ExitCode())
	}
	y.resumed()
	during := y.slowest(began, y.databaseNow())
	y.t.measure(slowerName, math.Round(100*during.Seconds()/before.Seconds())/100)
	y.t.note("p99 before %d ms, during %d ms", before.Milliseconds(), during.Milliseconds())
}

// slowest is the 99th percentile of how long diamonds took that began in a
// window, or a tenth of a second if that is longer.
func (y *yard) slowest(from, to time.Time) time.Duration {
	y.t.Helper()
	const query = `select coalesce(percentile_cont(0.99) within group (order by extract(epoch from finished_at - created_at)) * 1000, 0)::int
		from troupe.every_run r join troupe.workflow_definitions d using (definition)
		where d.name = 'diamond' and r.state = 'completed' and r.created_at >= $1 and r.created_at < $2`
	return max(time.Duration(y.number(query, from, to))*time.Millisecond, 100*time.Millisecond)
}
