package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// F01, F09: whoever is killed, nothing is lost and nothing completes twice.
// Three pods, of which one at a time is killed and started again.
func TestSIGKILL(t *testing.T) {
	t.Parallel()
	y := newYard(t, brisk(), 8)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	limit := spell(10*time.Second, 30*time.Second)
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
	seconds := time.Since(began).Seconds()
	v := y.settle()
	require.Positive(t, v.losses, "no pod was killed while it executed anything")
	measured(t, "F01 F09", "3 pods under load, one at a time SIGKILLed and restarted",
		"%d kills in %.0f s: %v", kills, seconds, v)
}

// F01: what a killed pod held is taken over when its lease has ended, not
// later, and nothing else is executed again.
func TestTakeover(t *testing.T) {
	t.Parallel()
	y := newYard(t, brisk(), 0)
	pods := y.start("pod-1", "pod-2", "pod-3")
	y.until("a pod leads", patience, func() bool { return y.leader() != "" })
	follower := pods[slices.IndexFunc(pods, func(p *pod) bool { return p.name != y.leader() })]
	ids := y.trigger(pods[0], "hold", 48)
	y.until("every slot holds a task", patience, func() bool { return count(readLedgers(t, y.dir), "begun") == 48 })
	held := len(y.holders(ids)[follower.name])
	require.Positive(t, held)
	at := y.databaseNow()
	follower.kill()
	y.until("every task of the dead pod is taken from it", patience, func() bool {
		return y.number(`select count(*)::int from troupe.every_event where kind = 7`) == held
	})
	taken := y.number(`select (extract(epoch from max(at) - $1) * 1000)::int from troupe.every_event where kind = 7`, at)
	for _, p := range pods {
		y.letGo(p.name)
	}
	v := y.judge()
	require.Equal(t, 48+held, v.executions, "only what the dead pod held is executed again")
	limit := 2 * y.tune.Lease.Milliseconds()
	require.Less(t, int64(taken), limit)
	measured(t, "F01", "SIGKILL of a pod that executes 16 tasks",
		"%d taken over after %d ms (lease %v), re-executed %d", held, taken, y.tune.Lease, v.executions-48)
}

// F07: a pod that was frozen for longer than its lease gets nothing recorded
// for what it held, and its step functions learn that it is over.
func TestZombiePod(t *testing.T) {
	t.Parallel()
	y := newYard(t, brisk(), 0)
	pods := y.start("pod-1", "pod-2", "pod-3")
	y.until("a pod leads", patience, func() bool { return y.leader() != "" })
	zombie := pods[slices.IndexFunc(pods, func(p *pod) bool { return p.name != y.leader() })]
	ids := y.trigger(pods[0], "hold", 48)
	y.until("every task is held", patience, func() bool { return count(readLedgers(t, y.dir), "begun") == 48 })
	held := len(y.holders(ids)[zombie.name])
	require.Positive(t, held)
	zombie.signal(syscall.SIGSTOP)
	y.until("every task of the frozen pod is taken from it", patience, func() bool {
		return y.number(`select count(*)::int from troupe.every_event where kind = 7`) == held
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
		return count(readLedger(t, zombie.ledger), "cut") == held
	})
	late := y.number(`select count(*)::int from troupe.every_event e join troupe.pods p on p.id = e.pod
		where p.name = $1 and e.kind = 3`, zombie.name)
	require.Zero(t, late)
	y.letGo(zombie.name)
	again := y.trigger(zombie, "hold", 1)
	y.until("the zombie takes triggers again", patience, func() bool { return y.number(openSQL) == 0 })
	require.Len(t, again, 1)
	v := y.judge()
	measured(t, "F07", "a pod frozen for longer than its lease, then resumed",
		"stale accepted 0 of %d, contexts ended %d ms after it resumed; %v", held, cut.Milliseconds(), v)
}

// F07, F08: the same under load, one pod after the other, the leader included.
func TestFreezesUnderLoad(t *testing.T) {
	t.Parallel()
	y := newYard(t, brisk(), 6)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	freezes := 0
	for began := time.Now(); time.Since(began) < spell(6*time.Second, 30*time.Second); freezes++ {
		p := y.named(fmt.Sprintf("pod-%d", 1+freezes%3))
		p.signal(syscall.SIGSTOP)
		y.under(y.tune.Lease + 500*time.Millisecond)
		p.signal(syscall.SIGCONT)
		y.under(500 * time.Millisecond)
	}
	v := y.settle()
	require.Positive(t, v.losses)
	measured(t, "F07 F08", "3 pods under load, one at a time frozen for longer than its lease", "%d freezes: %v", freezes, v)
}
