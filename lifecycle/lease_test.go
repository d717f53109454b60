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
		name string
		age  time.Duration
		dead bool
		want LeaseState
	}{
		{"just renewed", 0, false, LeaseLive},
		{"the clock of a suspended host can stand still", -time.Second, false, LeaseLive},
		{"a renewal is due", 5 * time.Second, false, LeaseLive},
		{"one was missed", 10*time.Second - 1, false, LeaseLive},
		{"two were missed", 10 * time.Second, false, LeaseLate},
		{"before the margin", 13*time.Second - 1, false, LeaseLate},
		{"at the margin", 13 * time.Second, false, LeaseLost},
		{"long after", time.Hour, false, LeaseLost},
		{"refused by the database", 0, true, LeaseDead},
		{"refused, and late too", time.Hour, true, LeaseDead},
	} {
		require.Equal(t, c.want, DecideLease(times, sent, sent.Add(c.age), c.dead), c.name)
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
			for _, dead := range []bool{false, true} {
				from := DecideLease(times, now.Add(-time.Duration(age)*time.Second), now, false)
				to := DecideLease(times, now.Add(-time.Duration(later)*time.Second), now, dead)
				if from != to {
					require.NoError(t, CheckLease(from, to))
					seen[[2]LeaseState{from, to}] = true
				}
			}
		}
	}
	require.Len(t, seen, len(leaseTable), "every line of the table can happen")
}
