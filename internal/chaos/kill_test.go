package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// F01, F09: whichever pod is killed, nothing is lost and nothing completes twice.
// Three pods, of which one at a time is killed and started again.
func TestSIGKILL(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F01", Name: "kills-under-load", Fault: "3 pods under load, one at a time SIGKILLed and restarted",
		Must:    "I1 I3 I4 I5",
		Allowed: []figure{atLeast("kills", 5, ""), atLeast("tasks lost with a pod", 1, "")},
	})
	y := newYard(r, brisk(), 8)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	limit := spell(8*time.Second, 15*time.Second)
	began, kills := time.Now(), 0
	for time.Since(began) < limit {
		y.under(300*time.Millisecond + rand.N(500*time.Millisecond))
		p := y.named(fmt.Sprintf("pod-%d", 1+rand.N(3)))
		if p == nil {
			continue
		}
		p.kill()
		kills++
		y.spawn(p.name)
	}
	r.count("kills", kills)
	v := y.settle()
	r.count("tasks lost with a pod", v.losses)
}

// F01: what a killed pod held is taken over when its lease has ended, not
// later, and nothing else is executed again.
func TestTakeover(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F01", Name: "pod-kill9-mid-step", Fault: "kill -9 of one of 3 pods that hold 100 tasks",
		Must: "I1 I3 I4 I5; nothing else is executed again",
		Allowed: []figure{
			within("taken over after", 1500*time.Millisecond), within("all of it executed again after", 2500*time.Millisecond),
			exactly("re-executed beyond what it held", 0),
		},
	})
	tune := brisk()
	tune.Slots, tune.Lease, tune.Pulse, tune.MaxLost = 50, time.Second, 300*time.Millisecond, 3
	y := newYard(r, tune, 0)
	pods := y.start("pod-1", "pod-2", "pod-3")
	y.until("a pod leads", patience, func() bool { return y.leader() != "" })
	ids := y.trigger(pods[0], "hold", 100)
	y.until("every task is held", patience, func() bool { return count(readLedgers(r, y.dir), "begun") == 100 })
	holders, leader := y.holders(ids), y.leader()
	follower := slices.MaxFunc(slices.DeleteFunc(slices.Clone(pods), func(p *pod) bool { return p.name == leader }), func(a, b *pod) int {
		return cmp.Compare(len(holders[a.name]), len(holders[b.name]))
	})
	held := len(holders[follower.name])
	require.Positive(r, held)
	at := y.databaseNow()
	follower.kill()
	y.until("every task of the dead pod is taken from it", patience, func() bool {
		return y.number(`select count(*)::int from troupe.every_event where kind = 'lost'`) == held
	})
	y.until("every task of the dead pod is executed again, beside the others", patience, func() bool {
		return count(readLedgers(r, y.dir), "begun") == 100+held
	})
	since := func(kind string) time.Duration {
		const latest = `select (extract(epoch from max(at) - $1) * 1000)::int from troupe.every_event where kind = `
		return time.Duration(y.number(latest+kind, at)) * time.Millisecond
	}
	r.took("taken over after", since("'lost'"))
	r.took("all of it executed again after", since("'started'"))
	for _, p := range pods {
		y.letGo(p.name)
	}
	r.note("%d tasks held, lease %v", held, y.tune.Lease)
	v := y.judge()
	r.count("re-executed beyond what it held", v.executions-100-held)
}

// F07: a pod that was frozen for longer than its lease gets nothing recorded
// for what it held, and its step functions learn that it is over.
func TestZombiePod(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F07", Name: "zombie-pod", Fault: "SIGSTOP of a pod that holds tasks for 3 leases, SIGCONT",
		Must:    "I3 I4; its contexts end, and it serves again",
		Allowed: []figure{none("stale accepted"), within("contexts ended after", time.Second)},
	})
	y := newYard(r, brisk(), 0)
	pods := y.start("pod-1", "pod-2", "pod-3")
	y.until("a pod leads", patience, func() bool { return y.leader() != "" })
	zombie := pods[slices.IndexFunc(pods, func(p *pod) bool { return p.name != y.leader() })]
	ids := y.trigger(pods[0], "hold", 48)
	y.until("every task is held", patience, func() bool { return count(readLedgers(r, y.dir), "begun") == 48 })
	held := len(y.holders(ids)[zombie.name])
	require.Positive(r, held)
	zombie.signal(syscall.SIGSTOP)
	y.until("every task of the frozen pod is taken from it", patience, func() bool {
		return y.number(`select count(*)::int from troupe.every_event where kind = 'lost'`) == held
	})
	for _, p := range pods {
		if p != zombie {
			y.letGo(p.name)
		}
	}
	y.until("the other pods complete everything", patience, func() bool { return y.number(openSQL) == 0 })
	y.under(max(0, 3*y.tune.Lease-2*time.Second))
	zombie.signal(syscall.SIGCONT)
	cut := y.until("the step functions of the zombie learn that it is over", patience, func() bool {
		return count(readLedger(r, zombie.ledger), "cut") == held
	})
	late := y.number(`select count(*)::int from troupe.every_event e join troupe.pods p on p.id = e.pod
		where p.name = $1 and e.kind = 'completed'`, zombie.name)
	r.count("stale accepted", late)
	r.took("contexts ended after", cut)
	y.letGo(zombie.name)
	again := y.trigger(zombie, "hold", 1)
	y.until("the zombie takes triggers again", patience, func() bool { return y.number(openSQL) == 0 })
	require.Len(r, again, 1)
	y.judge()
}

// F07, F08: the same under load, one pod after the other, the leader included.
func TestFreezesUnderLoad(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F07 F08", Name: "freezes-under-load", Fault: "3 pods under load, one at a time frozen for longer than its lease, the leader among them",
		FullOnly: true, Must: "I1 I3 I4 I7",
		Allowed: []figure{atLeast("freezes", 3, ""), atLeast("tasks lost with a pod", 1, "")},
	})
	y := newYard(r, brisk(), 6)
	pods := y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	ids := y.trigger(pods[0], "hold", 24)
	y.eventually("every pod that is to freeze holds something", func() bool { return len(y.holders(ids)) == len(pods) })
	freezes := 0
	for began := time.Now(); time.Since(began) < spell(6*time.Second, 12*time.Second); freezes++ {
		p := y.named(fmt.Sprintf("pod-%d", 1+freezes%3))
		p.signal(syscall.SIGSTOP)
		y.under(y.tune.Lease + 500*time.Millisecond)
		p.signal(syscall.SIGCONT)
		y.under(500 * time.Millisecond)
	}
	for _, p := range pods {
		y.letGo(p.name)
	}
	r.count("freezes", freezes)
	v := y.settle()
	r.count("tasks lost with a pod", v.losses)
}
