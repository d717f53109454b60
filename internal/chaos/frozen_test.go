package chaos

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// F07: all pods are frozen at once for longer than their leases, as by a host
// that is suspended, and continue at once: the first leader may declare the others
// dead, and they continue under new numbers.
func TestEverybodyFreezes(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F07", Name: "everybody-frozen", Fault: "SIGSTOP of all 3 pods under load for 3 leases, SIGCONT of all at the same time",
		FullOnly: true, Must: "I1 I3 I4 I13", Allowed: []figure{atLeast("freezes", float64(spell(1, 3)), ""), within("runs end again after", 3*time.Second)},
	})
	y := newYard(r, brisk(), 6)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	var slowest time.Duration
	for range spell(1, 3) {
		for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
			for _, p := range y.alive() {
				p.signal(s)
			}
			if s == syscall.SIGSTOP {
				y.under(3 * y.tune.Lease)
			}
		}
		slowest = max(slowest, y.resumed())
	}
	require.Len(r, y.alive(), 3, "no process has ended")
	r.count("freezes", spell(1, 3))
	r.took("runs end again after", slowest)
	y.settle()
}

// F12: a pod is killed while it drains: what it had not finished is taken over
// like that of any dead pod.
func TestSIGKILLWhileDraining(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F12", Name: "kill9-while-draining", Fault: "SIGTERM, then kill -9 while the pod waits for its steps",
		Must: "I1 I3 I4", Allowed: []figure{within("taken over after", 2*brisk().Lease), exactly("executions of 24 tasks", 24+8)},
	})
	tune := brisk()
	tune.Slots, tune.Grace = 8, time.Minute
	y := newYard(r, tune, 0)
	pods := y.start("pod-1", "pod-2", "pod-3")
	y.trigger(pods[0], "hold", 24)
	y.eventually("every slot holds a task", func() bool { return count(readLedgers(r, y.dir), "begun") == 24 })
	pods[2].signal(syscall.SIGTERM)
	y.hear(pods[2], "stopping")
	at := y.databaseNow()
	pods[2].kill()
	y.eventually("its tasks are taken from it", func() bool {
		return y.number(`select count(*)::int from troupe.every_event where kind = 'lost'`) == tune.Slots
	})
	taken := y.number(`select (extract(epoch from max(at) - $1) * 1000)::int from troupe.every_event where kind = 'lost'`, at)
	r.took("taken over after", time.Duration(taken)*time.Millisecond)
	y.letGo("pod-1")
	y.letGo("pod-2")
	v := y.judge()
	r.count("executions of 24 tasks", v.executions)
}
