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
	y := newYard(t, brisk(), 6)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	leader, epoch := y.named(y.leader()), y.epoch()
	require.NotNil(t, leader)
	leader.kill()
	after := y.until("another pod leads", patience, func() bool { return y.epoch() > epoch })
	y.spawn(leader.name)
	v := y.settle()
	late := y.number(latestNapSQL)
	require.Less(t, after, 3500*time.Millisecond)
	require.Less(t, late, int(after.Milliseconds())+2000)
	measured(t, "F09", "SIGKILL of the leader under load", "another leads after %d ms, timers late by at most %d ms; %v",
		after.Milliseconds(), late, v)
}

// F08: a frozen leader loses the lock, and what it does after it resumes is
// refused.
func TestLeaderFreeze(t *testing.T) {
	t.Parallel()
	y := newYard(t, brisk(), 6)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	leader, epoch := y.named(y.leader()), y.epoch()
	require.NotNil(t, leader)
	leader.signal(syscall.SIGSTOP)
	after := y.until("another pod leads", patience, func() bool { return y.epoch() > epoch })
	leader.signal(syscall.SIGCONT)
	y.under(time.Second)
	v := y.settle()
	require.Less(t, after, 5*time.Second)
	require.Equal(t, epoch+1, y.epoch(), "the one that was frozen does not take the lead back")
	measured(t, "F08", "SIGSTOP of the leader under load, then SIGCONT",
		"another leads after %d ms, timers fired twice 0, timers late by at most %d ms; %v", after.Milliseconds(), y.number(latestNapSQL), v)
}
