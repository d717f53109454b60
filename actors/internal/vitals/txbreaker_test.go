package vitals

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
)

// A begin that fails during an outage, or right after one, does not open the breaker.
func TestFailedBeginsOfAnOutageDoNotCount(t *testing.T) {
	t.Parallel()
	b, now, err := &TxBreaker{}, time.Unix(1000, 0), errors.New("refused")
	for range 10 {
		b.BeginFailed(now, now, Outage{Away: now.Add(-time.Second)}, err)
		b.BeginFailed(now, now.Add(time.Minute), Outage{Silent: true}, err)
	}
	require.Zero(t, b.Wait(now))
	require.Empty(t, b.Trouble(now))
	now = now.Add(time.Hour)
	for range TxFailures {
		b.BeginFailed(now, now, Outage{Away: now, Ended: now.Add(-time.Second)}, err)
	}
	require.Zero(t, b.Wait(now), "the server was restarted")
	for range TxFailures {
		b.BeginFailed(now, now, Outage{}, err)
	}
	require.Equal(t, TxOpenFor, b.Wait(now))
	require.Zero(t, b.Wait(now.Add(TxOpenFor)))
	require.Contains(t, b.Trouble(now), "refused")
	require.Empty(t, b.Trouble(now.Add(TxMemory)))
	b.Close()
	require.Zero(t, b.Wait(now), "the pool gives something")
	for range TxFailures {
		b.BeginFailed(now, now, Outage{}, err)
	}
	require.Equal(t, TxOpenFor, b.Wait(now), "and then no more")
	b.Close()
	require.Zero(t, b.Wait(now), "there is a connection again")
	b.BeginFailed(now, now, Outage{}, err)
	require.Empty(t, b.Trouble(now), "it begins anew")
	for range TxFailures {
		b.BeginFailed(now, now, Outage{Away: now}, persistence.ErrNoResources)
	}
	require.Contains(t, b.Trouble(now), "raise max_connections", "a server that has no connection to give answers")
}

// A call rejected now and then, for example because no further connection can be opened,
// is no outage.
func TestFailedBeginsBesideOneRejectedCall(t *testing.T) {
	t.Parallel()
	b, now, tried := &TxBreaker{}, time.Unix(1000, 0), 0
	for range 600 { // a minute
		if b.Wait(now) == 0 {
			tried++
			b.BeginFailed(now, now, Outage{Away: now}, errors.New("refused"))
		}
		now = now.Add(100 * time.Millisecond)
	}
	require.Contains(t, b.Trouble(now), "refused")
	require.Less(t, tried, 50, "for three seconds, and then once in ten")
}
