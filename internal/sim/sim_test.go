package sim

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/persistence"
)

func hitsOf(w *World, place string, visits int) []int {
	var hits []int
	for i := range visits {
		if _, ok := w.Happens(StoreLost, place); ok {
			hits = append(hits, i)
		}
	}
	return hits
}

// seedWith finds a seed in which a class may happen: half of them have it not.
func seedWith(t *testing.T, lab *Lab, class Class) uint64 {
	t.Helper()
	for seed := range uint64(100) {
		if lab.New(Options{Seed: seed, Classes: []Class{class}}).faults.rates[class] > 0 {
			return seed
		}
	}
	t.Fatalf("%s happens in no seed", class)
	return 0
}

func TestLeavingAFaultOutDoesNotMoveTheOthers(t *testing.T) {
	t.Parallel()
	lab := NewLab()
	options := Options{Seed: seedWith(t, lab, StoreLost), Classes: []Class{StoreLost}}
	w := lab.New(options)
	here, there := hitsOf(w, "here", 5000), hitsOf(w, "there", 5000)
	require.NotEqual(t, here, there, "each place has its own")
	require.Greater(t, len(here), 2)

	options.Only = nil
	for _, f := range w.Happened() {
		if f.Place == "there" || f.N == 1 {
			continue
		}
		options.Only = append(options.Only, f.Name())
	}
	again := lab.New(options)
	require.Empty(t, hitsOf(again, "there", 5000))
	require.Equal(t, append(here[:1:1], here[2:]...), hitsOf(again, "here", 5000), "all but the second, at the same visits")
}

func TestTimersRunInOrderAndMoveTheClock(t *testing.T) {
	t.Parallel()
	w := NewLab().New(Options{})
	var ran []string
	note := func(what string) func() { return func() { ran = append(ran, what+" "+w.Elapsed().String()) } }
	w.After(20*time.Millisecond, note("b"))
	w.After(10*time.Millisecond, note("a"))
	w.After(20*time.Millisecond, note("c"))
	w.After(15*time.Millisecond, note("never"))()
	for w.Elapsed() < 20*time.Millisecond && w.Step() {
	}
	require.Equal(t, []string{"a 10ms", "b 20ms", "c 20ms"}, ran)
}

func TestADriftingClockIsNeverEarly(t *testing.T) {
	t.Parallel()
	w := NewLab().New(Options{})
	for _, drift := range []float64{-0.02, -1e-6, 0, 1e-6, 0.02} {
		p := w.NewPod("pod", nil)
		p.drift, p.skew = drift, time.Minute
		c := p.clock()
		for _, d := range []time.Duration{0, time.Nanosecond, time.Millisecond, time.Hour} {
			due, fired := c.Now().Add(d), false
			c.After(d, func() {
				fired = true
				require.False(t, c.Now().Before(due), "%v at a drift of %v", d, drift)
			})
			for !fired && w.Step() {
			}
			require.True(t, fired)
		}
	}
}

func TestAPausedPodIsLateAndACrashedOneSilent(t *testing.T) {
	t.Parallel()
	w := NewLab().New(Options{})
	p := w.NewPod("pod", nil)
	var at time.Duration
	p.clock().After(time.Second, func() { at = w.Elapsed() })
	p.Pause(5 * time.Second)
	for w.Elapsed() < 6*time.Second && w.Step() {
	}
	require.Equal(t, 5*time.Second, at)

	ended := false
	q := w.NewPod("other", func(*Pod) { ended = true })
	q.clock().After(time.Second, func() { t.Error("a crashed pod has no timers") })
	q.Crash()
	require.True(t, ended)
	require.False(t, q.Alive())
	for w.Elapsed() < 10*time.Second && w.Step() {
	}
}

func TestStepFunctionsWaitInVirtualTimeAndEndWithTheirPod(t *testing.T) {
	t.Parallel()
	w := NewLab().New(Options{})
	p := w.NewPod("pod", nil)
	ctx, cancel := context.WithCancel(t.Context())
	var slept, canceled time.Duration
	unwound := false
	start := func(body func()) {
		c := begin(func(*coroutine) { body() })
		p.coroutines[c] = struct{}{}
		w.After(0, func() { p.run(c) })
	}
	start(func() {
		require.NoError(t, p.Sleep(t.Context(), time.Hour))
		slept = w.Elapsed()
	})
	start(func() {
		require.ErrorIs(t, p.Sleep(ctx, 2*time.Hour), context.Canceled)
		canceled = w.Elapsed()
	})
	start(func() {
		defer func() { unwound = true }()
		_ = p.Sleep(t.Context(), 100*time.Hour)
		t.Error("its pod has crashed")
	})
	w.After(90*time.Minute, func() {
		cancel()
		p.wakeEnded()
	})
	w.After(3*time.Hour, p.Crash)
	for w.Elapsed() < 4*time.Hour && w.Step() {
	}
	require.Equal(t, time.Hour, slept)
	require.Equal(t, 90*time.Minute, canceled)
	require.True(t, unwound)
	require.Empty(t, p.coroutines)
}

func TestALoopThatWaitsForNothingIsAViolation(t *testing.T) {
	t.Parallel()
	w := NewLab().New(Options{})
	var self *actors.PID
	self, err := w.Spawn("loop", func(message any) { w.Send(self, message, nil) })
	require.NoError(t, err)
	w.Send(self, "again", nil)
	for w.Step() {
	}
	require.Equal(t, "I12", w.Violation().Promise)
	require.Zero(t, w.Elapsed())
}

func TestACallThatIsRefusedAgainAndAgainIsAViolation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		every time.Duration
		loop  bool
	}{{time.Millisecond, true}, {10 * time.Millisecond, false}} {
		w := NewLab().New(Options{})
		p := w.NewPod("pod", nil)
		for w.Elapsed() < 3*time.Second && w.Violation() == nil {
			_, err := p.store.FireTimers(t.Context(), -1, 1)
			require.ErrorIs(t, err, persistence.ErrDeposed)
			w.After(c.every, func() {})
			w.Step()
		}
		require.Equal(t, c.loop, w.Violation() != nil)
		if c.loop {
			require.Equal(t, "I12", w.Violation().Promise)
			require.ErrorContains(t, w.Violation(), "fire_timers")
		}
	}
}
