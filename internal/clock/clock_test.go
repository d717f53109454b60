package clock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/clock"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestSystemCallsBackOnceUnlessStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock.System
		began := c.Now()
		fired := make(chan time.Time, 2)
		c.After(time.Hour, func() { fired <- c.Now() })
		stop := c.After(time.Minute, func() { fired <- c.Now() })
		stop()
		stop()
		require.Equal(t, time.Hour, (<-fired).Sub(began))
		synctest.Wait()
		require.Empty(t, fired)
	})
}

func TestAPauseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock.System
		began := c.Now()
		require.True(t, c.Pause(t.Context(), time.Minute))
		require.Equal(t, time.Minute, c.Now().Sub(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.False(t, c.Pause(ctx, time.Hour))
		require.Equal(t, time.Minute+time.Second, c.Now().Sub(began))
	})
}

func TestManualFiresByTimeThenByOrderOfAsking(t *testing.T) {
	t.Parallel()
	c := clock.NewManual(start)
	var fired []string
	at := func(name string, d time.Duration) func() {
		return c.After(d, func() { fired = append(fired, name+"@"+c.Now().Sub(start).String()) })
	}
	at("c", 3*time.Second)
	at("a", time.Second)
	at("b1", 2*time.Second)
	stop := at("never", 2*time.Second)
	at("b2", 2*time.Second)
	at("at once", -time.Second)
	stop()
	stop()
	require.Empty(t, fired, "After itself never calls back")

	c.Advance(0)
	require.Equal(t, []string{"at once@0s"}, fired)
	c.Advance(2 * time.Second)
	require.Equal(t, "at once@0s a@1s b1@2s b2@2s", strings.Join(fired, " "))
	next, waiting := c.Next()
	require.True(t, waiting)
	require.Equal(t, start.Add(3*time.Second), next)
	c.Advance(time.Hour)
	require.Len(t, fired, 5)
	_, waiting = c.Next()
	require.False(t, waiting)
	require.Equal(t, start.Add(time.Hour+2*time.Second), c.Now())
}

func TestManualRunsWhatACallbackAsksForWithinTheSameAdvance(t *testing.T) {
	t.Parallel()
	c := clock.NewManual(start)
	ticks := 0
	var tick func()
	tick = func() {
		ticks++
		c.After(time.Second, tick)
	}
	c.After(time.Second, tick)
	c.Advance(10*time.Second + 500*time.Millisecond)
	require.Equal(t, 10, ticks)
	c.Advance(500 * time.Millisecond)
	require.Equal(t, 11, ticks)
}

func TestManualStopAfterFiringDoesNothing(t *testing.T) {
	t.Parallel()
	c := clock.NewManual(start)
	stop := c.After(time.Second, func() {})
	other := false
	c.After(2*time.Second, func() { other = true })
	c.Advance(time.Second)
	stop()
	c.Advance(time.Second)
	require.True(t, other, "stopping a callback that has run must not remove another")
}

func TestManualDoesNotGoBack(t *testing.T) {
	t.Parallel()
	require.Panics(t, func() { clock.NewManual(start).Advance(-1) })
}
