package chaos

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/lifecycle"
)

// What happens to a task when its pod is told to stop, by the state that it is
// in: one test for each line of the table in docs/deployment.md. The pod that
// stops is pod-1; pod-2 is its peer.

// rest is how long the sleeps and the backoffs of these tests take: longer than
// a stop, and than a pod's start.
const rest = 3 * time.Second

// restShapes are workflows with a task that rests, and with one that waits for
// the test to let it go and has a child.
func (p *podProcess) restShapes() []*troupe.Workflow[string, string] {
	doze := troupe.Define("doze", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "a", p.first, troupe.After(troupe.Sleep(b, "nap", rest)))
	})
	patient := troupe.Define("patient", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "a", func(ctx context.Context, in string) (string, error) {
			if troupe.Task(ctx).Attempt == 1 {
				return "", errFlaky
			}
			return p.effect(ctx, in)
		}, troupe.Retry{Attempts: 2, First: rest})
	})
	heir := troupe.Define("heir", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step1(b, "b", p.next, troupe.Step0(b, "a", p.untilLetGo))
	})
	return []*troupe.Workflow[string, string]{doze, patient, heir}
}

// untilLetGo keeps its slot until the test lets the pod's holds go.
func (p *podProcess) untilLetGo(ctx context.Context, in string) (string, error) {
	task := troupe.Task(ctx)
	p.ledger.note("begun", task.Run.String(), task.Step)
	for {
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			p.ledger.note("cut", task.Run.String(), err.Error())
			return "", err
		}
		if _, err := os.Stat(releaseFile(p.spec.Dir, p.spec.Name)); err == nil {
			p.ledger.note("done", task.Run.String(), task.Step)
			return in, nil
		}
	}
}

// shutdown is a pod that has some tasks and is about to stop.
type shutdown struct {
	r   *trial
	y   *yard
	one *pod
}

// newShutdown starts pod-1 with 4 slots and triggers runs on it.
func newShutdown(t *testing.T, line row, shape string, n int) shutdown {
	t.Helper()
	r := begin(t, line)
	tune := brisk()
	tune.Slots, tune.Grace = 4, 20*time.Second
	y := newYard(r, tune, 0)
	one := y.start("pod-1")[0]
	y.trigger(one, shape, n)
	return shutdown{r, y, one}
}

// stop tells pod-1 to stop, and returns when it has begun to.
func (s shutdown) stop() {
	s.r.Helper()
	s.one.signal(syscall.SIGTERM)
	s.y.hear(s.one, "stopping")
}

// stopped waits until pod-1 has ended in good order.
func (s shutdown) stopped() {
	s.r.Helper()
	s.y.awaitEnd(s.one)
	require.Equal(s.r, exitClean, s.one.command.ProcessState.ExitCode())
}

// begun returns how many executions have begun on a pod.
func (s shutdown) begun(p *pod) int { s.r.Helper(); return count(readLedger(s.r, p.ledger), "begun") }

func (s shutdown) inState(state lifecycle.State) int {
	s.r.Helper()
	return s.y.number(`select count(*)::int from troupe.tasks where state = $1`, int(state))
}

// judge ends the row: nothing was lost, and as many tasks were handed back as
// the row says.
func (s shutdown) judge() verdict {
	s.r.Helper()
	v := s.y.judge()
	s.r.count("tasks lost with a pod", v.losses)
	s.r.count("handed back", v.released)
	return v
}

// Queued tasks stay in the queue, and peers claim them while the pod drains.
func TestShutdownLeavesQueuedTasksToPeers(t *testing.T) {
	t.Parallel()
	s := newShutdown(t, row{
		ID: "F12", Name: "shutdown-queued", Fault: "SIGTERM of a pod with 4 running tasks and 8 queued ones",
		Must: "a peer executes the queued ones while the pod drains", Allowed: []figure{none("tasks lost with a pod"), none("handed back")},
	}, "hold", 12)
	s.y.eventually("every slot is taken", func() bool { return s.begun(s.one) == 4 })
	s.stop()
	s.y.letGo("pod-2")
	two := s.y.start("pod-2")[0]
	s.y.eventually("the peer has executed what was queued", func() bool { return count(readLedger(s.r, two.ledger), "done") == 8 })
	require.NotNil(s.r, s.y.named("pod-1"), "it still drains")
	require.Equal(s.r, 4, s.begun(s.one), "it claims nothing more")
	s.y.letGo("pod-1")
	s.stopped()
	s.judge()
}

// Running tasks finish within the grace, under a lease that is renewed for as long
// as that takes, and their children go to peers.
func TestShutdownDrainsRunningTasks(t *testing.T) {
	t.Parallel()
	s := newShutdown(t, row{
		ID: "F12", Name: "shutdown-running", Fault: "SIGTERM of a pod whose tasks take three more leases",
		Must: "they complete there, their children on a peer", Allowed: []figure{none("tasks lost with a pod"), none("handed back")},
	}, "heir", 4)
	s.y.eventually("every slot is taken", func() bool { return s.begun(s.one) == 4 })
	two := s.y.start("pod-2")[0]
	s.stop()
	s.y.under(3 * s.y.tune.Lease)
	s.y.letGo("pod-1")
	s.stopped()
	v := s.judge()
	require.Equal(s.r, 8, v.executions)
	require.Equal(s.r, 4, s.begun(s.one))
	require.Equal(s.r, 4, s.begun(two))
}

// What runs longer than the grace is handed back uncharged: TestSIGTERMOverrun.

// Running tasks of a pod that is killed while it drains are taken over when its
// lease ends.
func TestShutdownKilledWhileItDrains(t *testing.T) {
	t.Parallel()
	s := newShutdown(t, row{
		ID: "F01", Name: "shutdown-killed", Fault: "SIGTERM, then SIGKILL of a pod with 4 running tasks",
		Must: "a peer executes them after the lease",
		Allowed: []figure{
			exactly("tasks lost with a pod", 4), none("handed back"), within("taken over after", 2*brisk().Lease),
		},
	}, "hold", 4)
	s.y.eventually("every slot is taken", func() bool { return s.begun(s.one) == 4 })
	s.y.letGo("pod-2")
	s.y.start("pod-2")
	s.stop()
	at := s.y.databaseNow()
	s.one.kill()
	s.y.eventually("the peer has them", func() bool { return s.y.number(openSQL) == 0 })
	taken := s.y.number(`select (extract(epoch from max(at) - $1) * 1000)::int from troupe.every_event where kind = 'lost'`, at)
	s.r.took("taken over after", time.Duration(taken)*time.Millisecond)
	require.Equal(s.r, 8, s.judge().executions)
}

// restsThrough stops pod-1 while tasks rest, and returns how early pod-2 continues the
// first of them, in milliseconds before it is due.
func (s shutdown) restsThrough(state lifecycle.State, early string) int {
	s.r.Helper()
	s.y.eventually("every task rests", func() bool { return s.inState(state) == 8 })
	s.stop()
	s.stopped()
	require.Equal(s.r, 8, s.inState(state), "the stop changes nothing about them")
	s.y.start("pod-2")
	s.y.eventually("all have completed", func() bool { return s.y.number(openSQL) == 0 })
	return s.y.number(early)
}

// Sleeping tasks are rows: their timers fire on whichever pod leads then, on
// time.
func TestShutdownDoesNotDisturbSleeps(t *testing.T) {
	t.Parallel()
	s := newShutdown(t, row{
		ID: "F12", Name: "shutdown-sleeping", Fault: "SIGTERM of the only pod, with 8 sleeping tasks",
		Must: "I8; the next pod fires their timers", Allowed: []figure{none("tasks lost with a pod"), none("handed back"), none("early")},
	}, "doze", 8)
	s.r.count("early", s.restsThrough(lifecycle.Sleeping, `select count(*)::int from troupe.every_event asleep
		join troupe.every_event woken on woken.run_id = asleep.run_id and woken.step = asleep.step and woken.kind = 'woken'
		where asleep.kind = 'sleeping' and woken.at < asleep.wake_at`))
	s.judge()
}

// A backoff is a row, too: nothing of it is in the memory of the pod that
// stops. The attempt that failed counts, the stop does not.
func TestShutdownDoesNotDisturbBackoffs(t *testing.T) {
	t.Parallel()
	s := newShutdown(t, row{
		ID: "F12", Name: "shutdown-backoff", Fault: "SIGTERM of the only pod, with 8 tasks that wait for their next attempt",
		Must: "the next pod tries again when the delay is over", Allowed: []figure{none("tasks lost with a pod"), none("handed back"), none("early")},
	}, "patient", 8)
	s.r.count("early", s.restsThrough(lifecycle.Backoff, `select count(*)::int from troupe.every_event failed
		join troupe.every_event again on again.run_id = failed.run_id and again.step = failed.step and again.kind = 'started' and again.attempt = 2
		where failed.kind = 'retrying' and again.at < failed.wake_at`))
	attempts := s.y.number(`select count(*)::int from troupe.every_event where kind = 'started' and attempt = 2`)
	require.Equal(s.r, 8, attempts)
	s.judge()
}
