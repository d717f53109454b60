package chaos

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const latestNapSQL = `select coalesce((max(extract(epoch from woken.at - asleep.wake_at)) * 1000)::int, 0)
from troupe.every_event asleep
join troupe.every_event woken on woken.run_id = asleep.run_id and woken.step = asleep.step and woken.kind = 12
where asleep.kind = 11`

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
// refused.
func TestLeaderFreeze(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F08", Name: "frozen-leader", Fault: "SIGSTOP of the leader under load, SIGCONT once another leads",
		Must:    "I4 I7 I8 I13; what the old one does afterwards is refused",
		Allowed: []figure{within("another leads after", 5*time.Second), none("terms that the old leader took back")},
	})
	y := newYard(r, brisk(), 6)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	leader, epoch := y.named(y.leader()), y.epoch()
	require.NotNil(r, leader)
	leader.signal(syscall.SIGSTOP)
	after := y.until("another pod leads", patience, func() bool { return y.epoch() > epoch })
	leader.signal(syscall.SIGCONT)
	y.under(time.Second)
	r.took("another leads after", after)
	r.count("terms that the old leader took back", y.epoch()-epoch-1)
	y.settle()
	r.note("timers late by at most %d ms", y.number(latestNapSQL))
}
