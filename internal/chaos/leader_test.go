package chaos

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const latestNapSQL = `select coalesce((max(extract(epoch from woken.at - asleep.wake_at)) * 1000)::int, 0)
from troupe.every_event asleep
join troupe.every_event woken on woken.run_id = asleep.run_id and woken.step = asleep.step and woken.kind = 'woken'
where asleep.kind = 'sleeping'`

const wokenSinceSQL = `select count(*)::int from troupe.every_event where kind = 'woken' and at >= $1`

// F09: another pod leads soon after the leader was killed, and timers are late
// by no more than that.
func TestLeaderKill(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F09", Name: "leader-kill9", Fault: "kill -9 of the leader under load",
		Must:    "I7 I8; timers are late by no more than the failover",
		Allowed: []figure{within("another leads after", 3500*time.Millisecond), within("timers late by at most", 3500*time.Millisecond)},
	})
	y := newYard(r, brisk(), 6)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	leader, epoch := y.named(y.leader()), y.epoch()
	require.NotNil(r, leader)
	leader.kill()
	after := y.until("another pod leads", patience, func() bool { return y.epoch() > epoch })
	y.spawn(leader.name)
	r.took("another leads after", after)
	y.settle()
	r.took("timers late by at most", time.Duration(y.number(latestNapSQL))*time.Millisecond)
}

// F08: a frozen leader loses the lock, and what it does after it resumes is
// refused: it is frozen while it is about to fire timers and to look for dead pods.
func TestLeaderFreeze(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F08", Name: "frozen-leader", Fault: "SIGSTOP of the leader under load while it is about to write, SIGCONT once another leads",
		Must: "I4 I7 I8 I13; what the old one does afterwards is refused",
		Allowed: []figure{
			within("another leads after", 5*time.Second), none("terms taken back"),
			atLeast("old calls refused", 2, ""), none("old calls accepted"), none("timers fired twice"),
		},
	})
	y := newYard(r, brisk(), 6)
	y.each = func(s *podSpec) { s.Fail.Lead = s.Name == "pod-1" }
	leader := y.start("pod-1")[0]
	y.eventually("it leads", func() bool { return y.leader() == leader.name })
	y.start("pod-2", "pod-3")
	y.warm()
	epoch := y.epoch()
	y.arm("lead")
	y.eventually("it is about to fire timers and to look for dead pods", func() bool {
		return count(readLedger(r, leader.ledger), "held") >= 2
	})
	leader.signal(syscall.SIGSTOP)
	after := y.until("another pod leads", patience, func() bool { return y.epoch() > epoch })
	y.eventually("timers fire again", func() bool { return y.number(wokenSinceSQL, y.databaseNow().Add(-time.Second)) > 0 })
	y.disarm("lead")
	leader.signal(syscall.SIGCONT)
	y.eventually("it has done what it was about to", func() bool {
		did := readLedger(r, leader.ledger)
		return count(did, "refused")+count(did, "accepted")+count(did, "unanswered") == count(did, "held")
	})
	y.under(time.Second)
	r.took("another leads after", after)
	r.count("terms taken back", y.epoch()-epoch-1)
	did := readLedger(r, leader.ledger)
	r.count("old calls refused", count(did, "refused"))
	r.count("old calls accepted", count(did, "accepted"))
	y.settle()
	r.count("timers fired twice", y.number(wokenTwiceSQL))
	r.note("timers late by at most %d ms", y.number(latestNapSQL))
}
