package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDecideLease(t *testing.T) {
	t.Parallel()
	times := LeaseTimes{TTL: 15 * time.Second, Pulse: 5 * time.Second, Margin: 2 * time.Second}
	sent := time.Unix(1000, 0)
	for _, c := range []struct {
		name   string
		age    time.Duration
		before LeaseState
		want   LeaseState
	}{
		{"just renewed", 0, LeaseLive, LeaseLive},
		{"the clock of a suspended host can stand still", -time.Second, LeaseLive, LeaseLive},
		{"a renewal is due", 5 * time.Second, LeaseLive, LeaseLive},
		{"one was missed", 10*time.Second - 1, LeaseLive, LeaseLive},
		{"two were missed", 10 * time.Second, LeaseLive, LeaseLate},
		{"before the margin", 13*time.Second - 1, LeaseLive, LeaseLate},
		{"at the margin", 13 * time.Second, LeaseLive, LeaseLost},
		{"long after", time.Hour, LeaseLive, LeaseLost},
		{"refused by the database", 0, LeaseDead, LeaseDead},
		{"refused, and late too", time.Hour, LeaseDead, LeaseDead},
	} {
		require.Equal(t, c.want, DecideLease(times, c.before, sent, sent.Add(c.age)), c.name)
	}
}

// TestLeaseDecisionsFollowTheTable goes through all that can happen to a lease
// from one look to the next: time passes, or a renewal is answered that was
// sent some time ago.
func TestLeaseDecisionsFollowTheTable(t *testing.T) {
	t.Parallel()
	times := LeaseTimes{TTL: 15 * time.Second, Pulse: 5 * time.Second, Margin: 2 * time.Second}
	seen := map[[2]LeaseState]bool{}
	now := time.Unix(1000, 0)
	for age := range 20 {
		for later := range 20 {
			for _, answered := range []LeaseState{LeaseLive, LeaseDead} {
				from := DecideLease(times, LeaseLive, now.Add(-time.Duration(age)*time.Second), now)
				to := DecideLease(times, answered, now.Add(-time.Duration(later)*time.Second), now)
				if from != to {
					require.NoError(t, CheckLease(from, to))
					seen[[2]LeaseState{from, to}] = true
				}
			}
		}
	}
	require.Len(t, seen, len(leaseTable), "every line of the table can happen")
}
