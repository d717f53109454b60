package load

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A look asks for the oldest, and for no more than one statement should.
func TestLooksTakeTheOldestAndABoundedNumber(t *testing.T) {
	t.Parallel()
	e := newEndings(nil, Load{Pods: 2}, &Histogram{}, func() {})
	for n := range 2*lookMax + 10 {
		e.expect([16]byte{byte(n), byte(n >> 8)}, order{At: int64(n)}, false)
	}
	open := e.take(nil)
	require.Len(t, open, lookMax)
	require.EqualValues(t, 0, open[0].at)
	open = e.take(open[lookMax-1:]) // one of them is still open
	require.Len(t, open, lookMax)
	require.EqualValues(t, lookMax-1, open[0].at)
	require.EqualValues(t, lookMax, open[1].at)
	require.Len(t, e.take(nil), 11)
	require.Empty(t, e.take(nil))
}

// Few are looked at often, many seldom, and none are not waited for.
func TestLooksWaitInProportion(t *testing.T) {
	t.Parallel()
	require.Zero(t, waitAfter(1, 0))
	require.Equal(t, 550*time.Microsecond, waitAfter(1, 1))
	require.Less(t, waitAfter(20, 5), 2*time.Millisecond)
	require.Equal(t, lookWait, waitAfter(lookMax, 0), "what was asked for says how many there will be")
}

// An end counts for the pod that triggered the run: the own ones give their
// permit back at once, the others are told of.
func TestEndsCountForThePodThatTriggered(t *testing.T) {
	t.Parallel()
	released := 0
	e := newEndings(nil, Load{Pods: 3, Index: 1}, &Histogram{}, func() { released++ })
	e.record(ending{at: 100, pod: 1}, 300)
	require.Empty(t, e.foreign)
	e.record(ending{at: 100, pod: 2, fatal: true}, 400)
	e.record(ending{at: 100, pod: 2}, 500)
	require.Len(t, e.foreign, 1)
	require.Equal(t, 1, released)
	require.Equal(t, []int64{0, 1, 2}, e.counts())
	require.EqualValues(t, 1, e.failed.Load())
	require.EqualValues(t, 500, e.last.Load())
	require.EqualValues(t, 3, e.ended.Count())
}

// A run that takes long is not looked at all the time.
func TestLooksComeLaterTheLongerARunTakes(t *testing.T) {
	t.Parallel()
	began := time.Unix(1000, 0)
	a := ending{returned: began}
	looks, now := 0, began
	for ; now.Sub(began) < time.Second; looks++ {
		a.later(now)
		require.LessOrEqual(t, a.next.Sub(now), max(lookAgain, now.Sub(began)/lookShare))
		now = a.next
	}
	require.Less(t, looks, 80)

	due, rest, first := split([]ending{{at: 1, next: began}, {at: 2, next: now.Add(2)}, {at: 3, next: now.Add(1)}}, nil, now)
	require.Equal(t, []ending{{at: 1, next: began}}, due)
	require.Len(t, rest, 2)
	require.Equal(t, now.Add(1), first)
}
